package com.acme;

import java.nio.ByteBuffer;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.Map;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.apache.iceberg.encryption.KeyManagementClient;

/** A KMS client that a user could have written: master keys are properties, a call counts. */
public final class OurKms implements KeyManagementClient {
  private static final SecureRandom RANDOM = new SecureRandom();
  private Map<String, String> properties;

  @Override
  public void initialize(Map<String, String> given) {
    if (!"kms.example".equals(given.get("acme.address"))) {
      throw new IllegalStateException("no address");
    }
    properties = given;
  }

  @Override
  public ByteBuffer wrapKey(ByteBuffer key, String wrappingKeyId) {
    byte[] nonce = new byte[12];
    RANDOM.nextBytes(nonce);
    byte[] sealed = crypt(Cipher.ENCRYPT_MODE, wrappingKeyId, nonce, bytes(key));
    return ByteBuffer.allocate(12 + sealed.length).put(nonce).put(sealed).flip();
  }

  @Override
  public ByteBuffer unwrapKey(ByteBuffer wrapped, String wrappingKeyId) {
    byte[] nonce = new byte[12];
    wrapped.get(nonce);
    return ByteBuffer.wrap(crypt(Cipher.DECRYPT_MODE, wrappingKeyId, nonce, bytes(wrapped)));
  }

  @Override
  public boolean supportsKeyGeneration() {
    return true;
  }

  /** The first byte shows that the key was made here. */
  @Override
  public KeyGenerationResult generateKey(String wrappingKeyId) {
    byte[] key = new byte[16];
    RANDOM.nextBytes(key);
    key[0] = 0x5a;
    ByteBuffer wrapped = wrapKey(ByteBuffer.wrap(key), wrappingKeyId);
    return new KeyGenerationResult(ByteBuffer.wrap(key), wrapped);
  }

  private byte[] crypt(int mode, String id, byte[] nonce, byte[] content) {
    String master = properties.get("acme.master." + id);
    if (master == null) {
      throw new IllegalArgumentException("no key " + id + " for " + HexFormat.of().formatHex(content));
    }
    try {
      Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
      SecretKeySpec key = new SecretKeySpec(HexFormat.of().parseHex(master), "AES");
      cipher.init(mode, key, new GCMParameterSpec(128, nonce));
      return cipher.doFinal(content);
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException(error);
    }
  }

  private static byte[] bytes(ByteBuffer buffer) {
    byte[] content = new byte[buffer.remaining()];
    buffer.get(content);
    return content;
  }
}
