import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The AGS1 work in a plain Java loop with the JDK's own cipher: reads "seal" or "open", prints seconds. */
final class Ags1Loop {
  private static final int BLOCK = 1 << 20;
  private static final int STORED = BLOCK + 28;

  private final byte[] plain;
  private final byte[] sealed;
  private final byte[] out = new byte[BLOCK];
  private final SecretKeySpec key;
  private final byte[] prefix = new byte[16];
  private final SecureRandom random = new SecureRandom();
  private final Cipher cipher;
  private final int blocks;

  private Ags1Loop(int blocks) throws Exception {
    this.blocks = blocks;
    this.plain = new byte[blocks * BLOCK];
    this.sealed = new byte[8 + blocks * STORED];
    byte[] bytes = new byte[16];
    random.nextBytes(bytes);
    random.nextBytes(prefix);
    this.key = new SecretKeySpec(bytes, "AES");
    this.cipher = Cipher.getInstance("AES/GCM/NoPadding");
    seal();
  }

  private byte[] aad(int index) {
    return ByteBuffer.allocate(20).order(ByteOrder.LITTLE_ENDIAN).put(prefix).putInt(index).array();
  }

  private void seal() throws Exception {
    byte[] nonce = new byte[12];
    for (int i = 0; i < blocks; i++) {
      int at = 8 + i * STORED;
      random.nextBytes(nonce);
      System.arraycopy(nonce, 0, sealed, at, 12);
      cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, nonce));
      cipher.updateAAD(aad(i));
      cipher.doFinal(plain, i * BLOCK, BLOCK, sealed, at + 12);
    }
  }

  private void open() throws Exception {
    for (int i = 0; i < blocks; i++) {
      int at = 8 + i * STORED;
      byte[] nonce = Arrays.copyOfRange(sealed, at, at + 12);
      cipher.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(128, nonce));
      cipher.updateAAD(aad(i));
      cipher.doFinal(sealed, at + 12, BLOCK + 16, out, 0);
    }
  }

  public static void main(String[] args) throws Exception {
    Ags1Loop loop = new Ags1Loop(Integer.parseInt(args[0]));
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String verb = in.readLine(); verb != null; verb = in.readLine()) {
      long began = System.nanoTime();
      if (verb.equals("seal")) {
        loop.seal();
      } else {
        loop.open();
      }
      System.out.println((System.nanoTime() - began) / 1e9);
    }
  }
}
