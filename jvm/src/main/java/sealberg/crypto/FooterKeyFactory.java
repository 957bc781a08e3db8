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
 * <p>The reader gets a key only for a path of {@link PinnedFooterFileSystem}, which verifies the
 * footer before the reader sees it.
 */
public class FooterKeyFactory implements DecryptionPropertiesFactory {
  private static final ThreadLocal<FileSplit> OPENING = new ThreadLocal<>();

  /** What a thread does while a file is the one that it opens. */
  public interface Opening<T> {
    T run();
  }

  /** Runs {@code opening} with the key of this file. */
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
      throw new FileIntegrityException(
          what + ": internal error: this thread opens no file, so there is no key for it");
    }
    return file;
  }

  @Override
  public FileDecryptionProperties getFileDecryptionProperties(Configuration conf, Path path) {
    FileSplit file = opening(String.valueOf(path)); // Parquet of Spark 4.0 may leave out the path
    if (file.key() == null) {
      return null;
    }
    if (path == null || !PinnedFooterFileSystem.SCHEME.equals(path.toUri().getScheme())) {
      throw new FileIntegrityException(
          file + ": internal error: encrypted file opened without footer verification");
    }
    FileDecryptionProperties.Builder builder =
        FileDecryptionProperties.builder().withFooterKey(file.key());
    return (file.aadPrefix() == null ? builder : builder.withAADPrefix(file.aadPrefix())).build();
  }

  /**
   * The error of a read. Altered or missing bytes become a {@link FileIntegrityException} that
   * names the file; any other error is thrown as it is.
   */
  public static RuntimeException translated(FileSplit file, Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof FileIntegrityException known) {
        return known;
      }
      if (cause instanceof ParquetCryptoRuntimeException
          || cause instanceof javax.crypto.AEADBadTagException) {
        return new FileIntegrityException(
            file
                + ": a part of the file failed authentication: altered bytes, another key or"
                + " another AAD prefix",
            error);
      }
    }
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof EOFException) {
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
