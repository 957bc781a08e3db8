package sealberg.crypto;

import java.io.EOFException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.crypto.DecryptionPropertiesFactory;
import org.apache.parquet.crypto.FileDecryptionProperties;
import org.apache.parquet.crypto.ParquetCryptoRuntimeException;
import sealberg.bridge.PythonBridge;
import sealberg.read.FileSplit;

/**
 * Gives Parquet's reader the key of the file that this thread is opening.
 *
 * <p>Only of a file that {@link PinnedFooterFileSystem} opens, which checks its footer first.
 */
public class FooterKeyFactory implements DecryptionPropertiesFactory {
  private static final ThreadLocal<FileSplit> OPENING = new ThreadLocal<>();

  public interface Opening<T> {
    T run();
  }

  public static <T> T with(FileSplit file, Opening<T> opening) {
    AesGcmWarmup.begin();
    OPENING.set(file);
    try {
      return opening.run();
    } finally {
      OPENING.remove();
    }
  }

  static FileSplit opening(String what) {
    FileSplit file = OPENING.get();
    if (file == null) {
      throw new FileIntegrityException(what + ": no key was brought for this file");
    }
    return file;
  }

  @Override
  public FileDecryptionProperties getFileDecryptionProperties(Configuration conf, Path path) {
    FileSplit file = opening(path.toString());
    if (file.key() == null) {
      return null;
    }
    if (!PinnedFooterFileSystem.SCHEME.equals(path.toUri().getScheme())) {
      throw new FileIntegrityException(file + ": it would be read without a look at its end");
    }
    FileDecryptionProperties.Builder builder =
        FileDecryptionProperties.builder().withFooterKey(file.key());
    return (file.aadPrefix() == null ? builder : builder.withAADPrefix(file.aadPrefix())).build();
  }

  /**
   * What Parquet's reader says of bytes that are not what was written, in our words; anything else
   * as it is.
   */
  public static RuntimeException told(FileSplit file, Throwable error) {
    for (Throwable one = error; one != null; one = one.getCause()) {
      if (one instanceof FileIntegrityException known) {
        return known;
      }
      if (one instanceof ParquetCryptoRuntimeException
          || one instanceof javax.crypto.AEADBadTagException) {
        return new FileIntegrityException(
            file
                + ": a part of the file failed authentication: altered bytes, another key or"
                + " another AAD prefix",
            error);
      }
    }
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof EOFException) {
        return new FileIntegrityException(
            file
                + ": the storage gave fewer bytes than the "
                + file.fileLength()
                + " that were written",
            error);
      }
    }
    throw PythonBridge.raised(
        error instanceof Exception checked ? checked : new RuntimeException(error));
  }
}
