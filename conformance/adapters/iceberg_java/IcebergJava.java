package org.apache.iceberg.encryption;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.EncryptedKeyParser;
import org.apache.iceberg.ManifestListFile;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.util.ByteBuffers;

/**
 * Iceberg Java for the runner of the vectors, by the calls with which it reads and writes tables. Lies in this package
 * for StandardKeyMetadata.
 *
 * <pre>
 *   java -cp CLASSES:iceberg-spark-runtime.jar:slf4j-api.jar org.apache.iceberg.encryption.IcebergJava [OPERATION FOLDER]
 * </pre>
 *
 * Without arguments the operations are lines on stdin, and the exit codes lines on stdout.
 */
public final class IcebergJava {
  private static final int DONE = 0;
  private static final int REFUSED = 10;
  private static final int NOT_SUPPORTED = 11;
  private static final int PIECE = 1 << 20;

  private final Path folder;

  private IcebergJava(Path folder) {
    this.folder = folder;
  }

  public static void main(String[] args) throws IOException {
    if (args.length > 0) {
      System.exit(answer(args[0], args[1]));
    }
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ", 2);
      System.out.println(answer(words[0], words[1]));
    }
  }

  private static int answer(String operation, String place) throws IOException {
    IcebergJava java = new IcebergJava(Path.of(place));
    try {
      switch (operation) {
        case "open":
          return java.open();
        case "seal":
          return java.seal();
        case "decode":
          return java.decode();
        case "encode":
          return java.encode();
        case "find":
          return java.find();
        default:
          return NOT_SUPPORTED;
      }
    } catch (RuntimeException | IOException e) {
      System.err.println(operation + " " + place + ": " + e);
      return REFUSED;
    }
  }

  private int open() throws IOException {
    if (Files.exists(at("allow-missing-length"))) {
      return NOT_SUPPORTED;
    }
    ByteBuffer keyMetadata = keyMetadata("key", "length").buffer();
    EncryptedInputFile file =
        EncryptedFiles.encryptedInput(
            org.apache.iceberg.Files.localInput(at("stream").toFile()), keyMetadata);
    try (InputStream in = manager(List.of(), Map.of()).decrypt(file).newStream();
        OutputStream out = Files.newOutputStream(at("plaintext"))) {
      byte[] piece = new byte[PIECE];
      for (int count = in.read(piece); count > 0; count = in.read(piece)) {
        out.write(piece, 0, count);
      }
    }
    return DONE;
  }

  private int seal() throws IOException {
    org.apache.iceberg.io.OutputFile stream = org.apache.iceberg.Files.localOutput(at("stream").toFile());
    try (InputStream in = Files.newInputStream(at("plaintext"));
        OutputStream out = new AesGcmOutputFile(stream, read("key"), readOrNull("aad-prefix")).create()) {
      in.transferTo(out);
    }
    write("length", Long.toString(Files.size(at("stream"))));
    return DONE;
  }

  private int decode() throws IOException {
    StandardKeyMetadata found = StandardKeyMetadata.parse(ByteBuffer.wrap(read("blob")));
    Files.write(at("encryption-key"), ByteBuffers.toByteArray(found.encryptionKey()));
    if (found.aadPrefix() != null) {
      Files.write(at("aad-prefix"), ByteBuffers.toByteArray(found.aadPrefix()));
    }
    if (found.fileLength() != null) {
      write("file-length", found.fileLength().toString());
    }
    return DONE;
  }

  private int encode() throws IOException {
    ByteBuffer blob = keyMetadata("encryption-key", "file-length").buffer();
    Files.write(at("blob"), ByteBuffers.toByteArray(blob));
    return DONE;
  }

  private int find() throws IOException {
    Map<String, byte[]> masters = new HashMap<>();
    for (String line : Files.readAllLines(at("master-keys"))) {
      String[] words = line.split(" ");
      masters.put(words[0], HexFormat.of().parseHex(words[1]));
    }
    List<EncryptedKey> keys = new ArrayList<>();
    for (JsonNode node : new ObjectMapper().readTree(read("encryption-keys"))) {
      keys.add(EncryptedKeyParser.fromJson(node.toString()));
    }
    ByteBuffer found =
        EncryptionUtil.decryptManifestListKeyMetadata(
            new ListFile(readText("snapshot-key-id")), manager(keys, masters));
    Files.write(at("key-metadata"), ByteBuffers.toByteArray(found));
    return DONE;
  }

  private StandardEncryptionManager manager(List<EncryptedKey> keys, Map<String, byte[]> masters)
      throws IOException {
    String tableKeyId = masters.isEmpty() ? "none" : readText("table-key-id");
    return new StandardEncryptionManager(keys, tableKeyId, 16, new MasterKeys(masters));
  }

  /** By the fields, because the constructor takes no null for the AAD prefix. */
  private StandardKeyMetadata keyMetadata(String key, String length) throws IOException {
    StandardKeyMetadata made = new StandardKeyMetadata();
    made.put(0, ByteBuffer.wrap(read(key)));
    byte[] aadPrefix = readOrNull("aad-prefix");
    made.put(1, aadPrefix == null ? null : ByteBuffer.wrap(aadPrefix));
    made.put(2, readNumber(length));
    return made;
  }

  private Path at(String name) {
    return folder.resolve(name);
  }

  private byte[] read(String name) throws IOException {
    return Files.readAllBytes(at(name));
  }

  private byte[] readOrNull(String name) throws IOException {
    return Files.exists(at(name)) ? read(name) : null;
  }

  private String readText(String name) throws IOException {
    return Files.readString(at(name));
  }

  private Long readNumber(String name) throws IOException {
    return Files.exists(at(name)) ? Long.valueOf(readText(name)) : null;
  }

  private void write(String name, String text) throws IOException {
    Files.writeString(at(name), text);
  }

  /** A manifest list of which nothing but the key is known. */
  private static final class ListFile implements ManifestListFile {
    private final String keyId;

    private ListFile(String keyId) {
      this.keyId = keyId;
    }

    @Override
    public String location() {
      return "list";
    }

    @Override
    public String encryptionKeyID() {
      return keyId;
    }

    @Override
    public ByteBuffer decryptKeyMetadata(EncryptionManager manager) {
      return EncryptionUtil.decryptManifestListKeyMetadata(this, manager);
    }
  }

  /** The KMS of the vectors: AES-GCM without AAD. */
  private static final class MasterKeys implements KeyManagementClient {
    private final Map<String, byte[]> keys;

    private MasterKeys(Map<String, byte[]> keys) {
      this.keys = keys;
    }

    @Override
    public ByteBuffer wrapKey(ByteBuffer key, String masterKeyId) {
      throw new UnsupportedOperationException("nothing is wrapped here");
    }

    @Override
    public ByteBuffer unwrapKey(ByteBuffer wrapped, String masterKeyId) {
      if (!keys.containsKey(masterKeyId)) {
        throw new IllegalArgumentException("no master key " + masterKeyId);
      }
      Ciphers.AesGcmDecryptor decryptor = new Ciphers.AesGcmDecryptor(keys.get(masterKeyId));
      return ByteBuffer.wrap(decryptor.decrypt(ByteBuffers.toByteArray(wrapped), null));
    }

    @Override
    public void initialize(Map<String, String> properties) {}
  }
}
