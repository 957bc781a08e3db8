import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.ByteBuffer;
import java.security.KeyStore;
import java.util.Collections;
import java.util.Date;
import java.util.HexFormat;
import java.util.TreeSet;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * The other side of a shared PKCS12 store, with nothing but the JDK.
 *
 * <pre>
 *   list   STORE PASSWORD                  alias, algorithm, hex of the key, creation in ms; one entry a line
 *   write  STORE PASSWORD ALIAS=HEX[:ALG]  a new store with these secret keys
 *   unwrap STORE PASSWORD ALIAS HEX        nonce | ciphertext | tag under that key, no AAD; prints the hex inside
 * </pre>
 */
public final class Pkcs12Check {
  private static final HexFormat HEX = HexFormat.of();

  public static void main(String[] args) throws Exception {
    String path = args[1];
    char[] password = args[2].toCharArray();
    switch (args[0]) {
      case "list" -> list(load(path, password), password);
      case "write" -> write(path, password, args);
      case "unwrap" -> unwrap(load(path, password), password, args[3], HEX.parseHex(args[4]));
      default -> throw new IllegalArgumentException(args[0]);
    }
  }

  private static KeyStore load(String path, char[] password) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    try (FileInputStream in = new FileInputStream(path)) {
      store.load(in, password);
    }
    return store;
  }

  private static void list(KeyStore store, char[] password) throws Exception {
    for (String alias : new TreeSet<>(Collections.list(store.aliases()))) {
      SecretKey key = (SecretKey) store.getKey(alias, password);
      Date created = store.getCreationDate(alias);
      System.out.println(
          alias + " " + key.getAlgorithm() + " " + HEX.formatHex(key.getEncoded()) + " " + created.getTime());
    }
  }

  private static void write(String path, char[] password, String[] args) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, password);
    for (int i = 3; i < args.length; i++) {
      String[] parts = args[i].split("[=:]");
      SecretKey key = new SecretKeySpec(HEX.parseHex(parts[1]), parts.length > 2 ? parts[2] : "AES");
      store.setEntry(
          parts[0], new KeyStore.SecretKeyEntry(key), new KeyStore.PasswordProtection(password));
    }
    try (FileOutputStream out = new FileOutputStream(path)) {
      store.store(out, password);
    }
  }

  private static void unwrap(KeyStore store, char[] password, String alias, byte[] wrapped) throws Exception {
    Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
    ByteBuffer bytes = ByteBuffer.wrap(wrapped);
    byte[] nonce = new byte[12];
    bytes.get(nonce);
    cipher.init(Cipher.DECRYPT_MODE, store.getKey(alias, password), new GCMParameterSpec(128, nonce));
    byte[] rest = new byte[bytes.remaining()];
    bytes.get(rest);
    System.out.println(HEX.formatHex(cipher.doFinal(rest)));
  }
}
