package sealberg.crypto;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Checks of the end of an encrypted Parquet file that need no key.
 *
 * <pre>
 *   ... | FileCryptoMetaData, in the clear | footer, sealed | footer length, u32 LE | PARE
 *         └ names the algorithm
 * </pre>
 *
 * GCM authenticates everything but FileCryptoMetaData. Parquet's reader would accept
 * AES_GCM_CTR_V1, an algorithm that does not authenticate pages, so FileCryptoMetaData must name
 * AES_GCM_V1 and nothing else. {@link PinnedFooterFileSystem} gives the reader the very bytes that
 * were checked here.
 */
public final class EncryptedFooter {
  private static final int END = 8;
  private static final int BINARY = 8;
  private static final int BOOLEAN = 1; // true; false is 2

  private EncryptedFooter() {}

  /** The number of bytes from the start of FileCryptoMetaData to the end of the file. */
  public static int length(String file, long fileLength, byte[] tail) {
    checkMagic(file, tail);
    int at = tail.length - END;
    int length =
        (tail[at] & 0xff)
            | (tail[at + 1] & 0xff) << 8
            | (tail[at + 2] & 0xff) << 16
            | (tail[at + 3] & 0xff) << 24;
    // The length comes from an untrusted file: subtract from the file's length, since a sum of
    // lengths could overflow.
    if (length < 0 || length > fileLength - END - 4) {
      throw new FileIntegrityException(
          file + ": a footer of " + length + " bytes does not fit into " + fileLength);
    }
    return length + END;
  }

  private static void checkMagic(String file, byte[] tail) {
    String magic =
        tail.length < END + 4
            ? ""
            : new String(tail, tail.length - 4, 4, StandardCharsets.ISO_8859_1);
    if (magic.equals("PAR1")) {
      throw new FileIntegrityException(
          file + ": plaintext Parquet in the place of an encrypted file");
    }
    if (!magic.equals("PARE")) {
      throw new FileIntegrityException(
          file
              + ": not an encrypted Parquet file: found magic \""
              + printable(magic)
              + "\", expected \"PARE\"");
    }
  }

  /** The magic of an unknown file, without characters that a terminal would act on. */
  private static String printable(String magic) {
    return magic.replaceAll("[^\\x20-\\x7e]", "?");
  }

  /**
   * Thrift's compact protocol: 1c (field 1, a union), 1c (its field 1, AES_GCM_V1) or 2c
   * (AES_GCM_CTR_V1), ...
   */
  public static void checkAlgorithm(String file, byte[] tail, int footerLength) {
    byte[] footer = Arrays.copyOfRange(tail, tail.length - footerLength, tail.length - END);
    if (footer.length > 1 && footer[0] == 0x1c && footer[1] == 0x2c) {
      throw new FileIntegrityException(
          file + ": its pages are encrypted without authentication (AES_GCM_CTR_V1)");
    }
    boolean gcm = footer.length > 1 && footer[0] == 0x1c && footer[1] == 0x1c;
    int at = gcm ? skipFields(footer, 2, BINARY, BINARY, BOOLEAN) : -1;
    // The union ends after the struct of the algorithm: a second member would replace the first.
    if (at < 0 || at >= footer.length || footer[at] != 0) {
      throw new FileIntegrityException(
          file + ": its footer does not begin with the name of an encryption algorithm");
    }
    // Only the name of the key may follow: a second algorithm would replace the first.
    if (skipFields(footer, at + 1, BINARY) < 0) {
      throw new FileIntegrityException(
          file + ": its footer names more than one encryption algorithm");
    }
  }

  /**
   * Skips the fields of a struct and its end.
   *
   * <p>A field must have the type that {@code kinds} has at its number, and occur at most once. A
   * byte string must be shorter than 128 bytes, so that its length is one byte. Python's
   * files/parquet/reader.py applies the same rules.
   *
   * @return the position after the struct, or -1 if a rule is broken
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
}
