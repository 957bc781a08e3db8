package sealberg;

import java.io.EOFException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.crypto.DecryptionPropertiesFactory;
import org.apache.parquet.crypto.FileDecryptionProperties;
import org.apache.parquet.crypto.ParquetCryptoRuntimeException;

/**
 * Gives Parquet's reader the key of the file that this thread is opening; and knows how such a file must end.
 *
 * <pre>
 *   ... | FileCryptoMetaData, in the clear | footer, sealed | footer length, u32 LE | PARE
 *         └ names the algorithm
 * </pre>
 *
 * GCM covers all but FileCryptoMetaData, and there is an algorithm (AES_GCM_CTR_V1) under which pages are not
 * authenticated and which Parquet's reader would accept. So a file must say AES_GCM_V1 before the reader sees it;
 * {@link SealedFs} sees to it that the reader sees the same.
 */
public class SealedKeys implements DecryptionPropertiesFactory {
  private static final ThreadLocal<SealedFile> OPENING = new ThreadLocal<>();
  private static final int END = 8;

  interface Opening<T> {
    T run();
  }

  static <T> T with(SealedFile file, Opening<T> opening) {
    Warmth.begin();
    OPENING.set(file);
    try {
      return opening.run();
    } finally {
      OPENING.remove();
    }
  }

  static SealedFile opening(String what) {
    SealedFile file = OPENING.get();
    if (file == null) {
      throw new SealedFileException(what + ": no key was brought for this file");
    }
    return file;
  }

  @Override
  public FileDecryptionProperties getFileDecryptionProperties(Configuration conf, Path path) {
    SealedFile file = opening(path.toString());
    if (file.key == null) {
      return null;
    }
    if (!SealedFs.SCHEME.equals(path.toUri().getScheme())) {
      throw new SealedFileException(file + ": it would be read without a look at its end");
    }
    FileDecryptionProperties.Builder builder = FileDecryptionProperties.builder().withFooterKey(file.key);
    return (file.aadPrefix == null ? builder : builder.withAADPrefix(file.aadPrefix)).build();
  }

  /** From the beginning of FileCryptoMetaData to the end of the file. */
  static int footerLength(SealedFile file, byte[] tail) {
    checkMagic(file, tail);
    int at = tail.length - END;
    int length =
        (tail[at] & 0xff) | (tail[at + 1] & 0xff) << 8 | (tail[at + 2] & 0xff) << 16 | (tail[at + 3] & 0xff) << 24;
    if (length < 0 || length > file.fileLength - END - 4) {  // and no sum that could overflow: the file is not trusted
      throw new SealedFileException(file + ": a footer of " + length + " bytes does not fit into " + file.fileLength);
    }
    return length + END;
  }

  private static void checkMagic(SealedFile file, byte[] tail) {
    String magic = tail.length < END + 4 ? "" : new String(tail, tail.length - 4, 4, StandardCharsets.ISO_8859_1);
    if (magic.equals("PAR1")) {
      throw new SealedFileException(file + ": plaintext Parquet in the place of an encrypted file");
    }
    if (!magic.equals("PARE")) {
      throw new SealedFileException(file + ": not an encrypted Parquet file");
    }
  }

  /** Thrift's compact protocol: 1c (field 1, a union), 1c (its field 1, AES_GCM_V1) or 2c (AES_GCM_CTR_V1), ... */
  static void checkAlgorithm(SealedFile file, byte[] tail, int footerLength) {
    byte[] footer = Arrays.copyOfRange(tail, tail.length - footerLength, tail.length - END);
    if (footer.length > 1 && footer[0] == 0x1c && footer[1] == 0x2c) {
      throw new SealedFileException(file + ": its pages are encrypted without authentication (AES_GCM_CTR_V1)");
    }
    boolean gcm = footer.length > 1 && footer[0] == 0x1c && footer[1] == 0x1c;
    int at = gcm ? skipFields(footer, 2, BINARY, BINARY, BOOLEAN) : -1;
    // After the struct of the algorithm, its union must end too: a second member would replace the first.
    if (at < 0 || at >= footer.length || footer[at] != 0) {
      throw new SealedFileException(file + ": its footer does not begin with the name of an encryption algorithm");
    }
    // And nothing but a name for the key may follow: another algorithm would take the place of this one.
    if (skipFields(footer, at + 1, BINARY) < 0) {
      throw new SealedFileException(file + ": its footer names more than one encryption algorithm");
    }
  }

  private static final int BINARY = 8;
  private static final int BOOLEAN = 1;  // true; false is 2

  /**
   * Over the fields of a struct, each of its kind and at most once, and over its end; where that is, or -1 if it is
   * anything else. Byte strings are short: their length is one byte. parquet.py does the same, byte for byte.
   */
  private static int skipFields(byte[] footer, int from, int... kinds) {
    int at = from;
    int last = 0;
    while (at < footer.length && footer[at] != 0) {
      int step = (footer[at] & 0xf0) >> 4;
      int kind = footer[at] & 0xf;
      last += step;
      if (step == 0 || last > kinds.length || (kind == 2 ? BOOLEAN : kind) != kinds[last - 1]) {
        return -1;
      }
      if (kind == BINARY && (at + 1 >= footer.length || footer[at + 1] < 0)) {
        return -1;
      }
      at += kind == BINARY ? 2 + footer[at + 1] : 1;
    }
    return at < footer.length ? at + 1 : -1;
  }

  /** What Parquet's reader says of bytes that are not what was written, in our words; anything else as it is. */
  static RuntimeException told(SealedFile file, Throwable error) {
    for (Throwable one = error; one != null; one = one.getCause()) {
      if (one instanceof SealedFileException known) {
        return known;
      }
      if (one instanceof ParquetCryptoRuntimeException || one instanceof javax.crypto.AEADBadTagException) {
        return new SealedFileException(
            file + ": a part of the file failed authentication: altered bytes, another key or another AAD prefix", error);
      }
    }
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof EOFException) {
        return new SealedFileException(
            file + ": the storage gave fewer bytes than the " + file.fileLength + " that were written", error);
      }
    }
    throw Bridge.raised(error instanceof Exception checked ? checked : new RuntimeException(error));
  }
}
