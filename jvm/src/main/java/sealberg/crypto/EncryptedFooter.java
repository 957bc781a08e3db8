package sealberg.crypto;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * How an encrypted Parquet file must end.
 *
 * <pre>
 *   ... | FileCryptoMetaData, in the clear | footer, sealed | footer length, u32 LE | PARE
 *         └ names the algorithm
 * </pre>
 *
 * GCM covers all but FileCryptoMetaData, and there is an algorithm (AES_GCM_CTR_V1) under which
 * pages are not authenticated and which Parquet's reader would accept. So a file must say
 * AES_GCM_V1 before the reader sees it; {@link PinnedFooterFileSystem} sees to it that the reader
 * sees the same.
 */
public final class EncryptedFooter {
  private static final int END = 8;
  private static final int BINARY = 8;
  private static final int BOOLEAN = 1; // true; false is 2

  private EncryptedFooter() {}

  /** From the beginning of FileCryptoMetaData to the end of the file. */
  public static int length(String file, long fileLength, byte[] tail) {
    checkMagic(file, tail);
    int at = tail.length - END;
    int length =
        (tail[at] & 0xff)
            | (tail[at + 1] & 0xff) << 8
            | (tail[at + 2] & 0xff) << 16
            | (tail[at + 3] & 0xff) << 24;
    // No sum that could overflow: the file is not trusted.
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
      throw new FileIntegrityException(file + ": not an encrypted Parquet file");
    }
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
    // After the struct of the algorithm, its union must end too: a second member would replace the
    // first.
    if (at < 0 || at >= footer.length || footer[at] != 0) {
      throw new FileIntegrityException(
          file + ": its footer does not begin with the name of an encryption algorithm");
    }
    // And nothing but a name for the key may follow: another algorithm would take the place of this
    // one.
    if (skipFields(footer, at + 1, BINARY) < 0) {
      throw new FileIntegrityException(
          file + ": its footer names more than one encryption algorithm");
    }
  }

  /**
   * Over the fields of a struct, each of its kind and at most once, and over its end; where that
   * is, or -1 if it is anything else. Byte strings are short: their length is one byte.
   * files/parquet/reader.py does the same, byte for byte.
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
