import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * AGS1 by other hands: the JDK's cipher, and no line of Iceberg's or ours.
 *
 * <pre>
 *   java Ags1Check MANIFEST
 *
 *   open  KEY AAD_PREFIX LENGTH STREAM            prints  ok SHA-256 of the plaintext, or  refused WHY
 *   seal  KEY AAD_PREFIX PLAIN  STREAM            prints  ok STORED LENGTH
 * </pre>
 *
 * The manifest has one such line a case, so that one JVM serves all of them; the answers come in
 * the same order. Keys and AAD prefixes are hex; a dash is no AAD prefix. LENGTH is the trusted one.
 */
public final class Ags1Check {
  private static final byte[] HEADER = {'A', 'G', 'S', '1', 0, 0, 0x10, 0};
  private static final int BLOCK = 1 << 20;
  private static final int NONCE = 12;
  private static final int TAG = 16;

  private final SecretKeySpec key;
  private final byte[] aadPrefix;
  private final Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");

  private Ags1Check(String key, String aadPrefix) throws GeneralSecurityException {
    this.key = new SecretKeySpec(HexFormat.of().parseHex(key), "AES");
    this.aadPrefix = aadPrefix.equals("-") ? null : HexFormat.of().parseHex(aadPrefix);
  }

  public static void main(String[] args) throws Exception {
    for (String line : Files.readAllLines(Path.of(args[0]))) {
      String[] words = line.split("\t");
      Ags1Check check = new Ags1Check(words[1], words[2]);
      if (words[0].equals("open")) {
        System.out.println(check.open(Path.of(words[4]), Long.parseLong(words[3])));
      } else {
        System.out.println(check.seal(Path.of(words[3]), Path.of(words[4])));
      }
    }
  }

  private String open(Path stream, long length) throws IOException, GeneralSecurityException {
    if (Files.size(stream) != length) {
      return "refused length";
    }
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(stream)))) {
      if (!Arrays.equals(in.readNBytes(HEADER.length), HEADER)) {
        return "refused header";
      }
      long left = length - HEADER.length;
      for (int index = 0; left > 0 || index == 0; index++) {
        byte[] block = in.readNBytes((int) Math.min(left, NONCE + BLOCK + TAG));
        if (block.length < NONCE + TAG || (block.length == NONCE + TAG && index > 0)) {
          return "refused block " + index + " of " + block.length + " bytes";
        }
        init(Cipher.DECRYPT_MODE, Arrays.copyOf(block, NONCE), index);
        digest.update(cipher.doFinal(block, NONCE, block.length - NONCE));
        left -= block.length;
      }
    } catch (javax.crypto.AEADBadTagException e) {
      return "refused tag";
    }
    return "ok " + HexFormat.of().formatHex(digest.digest());
  }

  private String seal(Path plain, Path stream) throws IOException, GeneralSecurityException {
    SecureRandom random = new SecureRandom();
    try (var in = new BufferedInputStream(Files.newInputStream(plain));
        OutputStream out = new BufferedOutputStream(Files.newOutputStream(stream))) {
      out.write(HEADER);
      byte[] block = in.readNBytes(BLOCK);
      for (int index = 0; block.length > 0 || index == 0; index++) {
        byte[] nonce = new byte[NONCE];
        random.nextBytes(nonce);
        init(Cipher.ENCRYPT_MODE, nonce, index);
        out.write(nonce);
        out.write(cipher.doFinal(block));
        block = in.readNBytes(BLOCK);
      }
    }
    return "ok " + Files.size(stream);
  }

  private void init(int mode, byte[] nonce, int index) throws GeneralSecurityException {
    cipher.init(mode, key, new GCMParameterSpec(8 * TAG, nonce));
    if (aadPrefix != null) {
      cipher.updateAAD(aadPrefix);
    }
    cipher.updateAAD(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(0, index));
  }
}
