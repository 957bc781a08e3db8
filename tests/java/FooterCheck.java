package sealberg.crypto;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.parquet.format.FileCryptoMetaData;
import org.apache.parquet.format.Util;

/**
 * What Java makes of the ends of encrypted Parquet files: length-prefixed files in, for each of them a verdict out.
 *
 * <pre>
 *   int length, file  ->  'a' accepted | 'r' refused | 'x' another exception; int footer length; int n, n bytes of text
 * </pre>
 *
 * The text of an accepted file is the algorithm that Parquet's own reader finds in it.
 */
public final class FooterCheck {
  private FooterCheck() {}

  public static void main(String[] arguments) throws Exception {
    DataInputStream in = new DataInputStream(System.in);
    DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
    while (true) {
      byte[] tail;
      try {
        tail = new byte[in.readInt()];
      } catch (EOFException end) {
        return;
      }
      in.readFully(tail);
      char verdict = 'a';
      int length = 0;
      String text;
      try {
        length = EncryptedFooter.length("file:/f", tail.length, tail);
        EncryptedFooter.checkAlgorithm("file:/f", tail, length);
        text = algorithm(Arrays.copyOfRange(tail, tail.length - length, tail.length - 8));
      } catch (FileIntegrityException refused) {
        verdict = 'r';
        length = 0;
        text = refused.getMessage();
      } catch (RuntimeException error) {
        verdict = 'x';
        text = error.toString();
      }
      byte[] said = text.getBytes(StandardCharsets.UTF_8);
      out.writeByte(verdict);
      out.writeInt(length);
      out.writeInt(said.length);
      out.write(said);
      out.flush();
    }
  }

  private static String algorithm(byte[] footer) {
    try {
      FileCryptoMetaData found = Util.readFileCryptoMetaData(new ByteArrayInputStream(footer));
      return found.getEncryption_algorithm().getSetField().toString();
    } catch (Exception error) {
      return error.toString();
    }
  }
}
