package sealberg.crypto;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Brings AES-GCM to its speed, once in each JVM, beside the first work.
 *
 * <pre>
 *   calls of the cipher    1 ........ 5,000 ........
 *   speed                  a part     all of it: the JIT then takes the processor's own instructions
 * </pre>
 *
 * The JIT counts calls and not bytes, and a Parquet file has few parts: by itself it gets there
 * after most of a gigabyte.
 */
public final class AesGcmWarmup {
  private static final int CALLS = 12_000;
  private static final int BYTES = 256;

  static {
    Thread thread = new Thread(AesGcmWarmup::run, "sealberg-warmth");
    thread.setDaemon(true);
    thread.start();
  }

  private AesGcmWarmup() {}

  /** Does nothing but load this class. */
  public static void begin() {}

  private static void run() {
    try {
      byte[] key = new byte[16];
      new SecureRandom().nextBytes(key);
      SecretKeySpec spec = new SecretKeySpec(key, "AES");
      Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
      byte[] bytes = new byte[BYTES];
      byte[] sealed = new byte[BYTES + 16];
      for (int call = 0; call < CALLS; call++) {
        byte[] nonce = ByteBuffer.allocate(12).putInt(call).array();
        GCMParameterSpec parameters = new GCMParameterSpec(128, nonce);
        cipher.init(Cipher.ENCRYPT_MODE, spec, parameters);
        cipher.updateAAD(nonce);
        cipher.doFinal(bytes, 0, BYTES, sealed, 0);
        cipher.init(Cipher.DECRYPT_MODE, spec, parameters);
        cipher.updateAAD(nonce);
        cipher.doFinal(sealed, 0, sealed.length, bytes, 0);
      }
    } catch (GeneralSecurityException error) {
      // Whoever has real work for the cipher will hear of it.
    }
  }
}
