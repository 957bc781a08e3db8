package sealberg.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * Every message, as the golden files in vectors/protocol have it; Python's tests read the same
 * files.
 */
class MessageCodecTest {
  private static final Path GOLDEN =
      Path.of(System.getProperty("sealberg.vectors", "../vectors"), "protocol");

  private static final List<Class<?>> AREAS =
      List.of(
          CallMessages.class,
          FilterMessages.class,
          KmsMessages.class,
          MetadataTableMessages.class,
          NamespaceMessages.class,
          ProcedureMessages.class,
          ScanMessages.class,
          StorageMessages.class,
          StreamMessages.class,
          TableChangeMessages.class,
          TableMessages.class,
          WriteMessages.class);

  private static Map<String, Class<? extends Message>> records() {
    Map<String, Class<? extends Message>> records = new TreeMap<>();
    for (Class<?> area : AREAS) {
      for (Class<?> nested : area.getDeclaredClasses()) {
        if (nested.isRecord()) {
          records.put(nested.getSimpleName(), nested.asSubclass(Message.class));
        }
      }
    }
    return records;
  }

  private static Map<String, JsonNode> golden() throws IOException {
    Map<String, JsonNode> golden = new TreeMap<>();
    try (DirectoryStream<Path> files = Files.newDirectoryStream(GOLDEN, "*.json")) {
      for (Path file : files) {
        JsonNode content = MessageCodec.JSON.readTree(file.toFile());
        golden.put(content.get("message").asText(), content);
      }
    }
    return golden;
  }

  @Test
  void everyRecordHasAGoldenFileAndEveryFileARecord() throws IOException {
    assertEquals(records().keySet(), golden().keySet());
  }

  @TestFactory
  List<DynamicTest> messages() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    golden()
        .forEach(
            (name, content) ->
                tests.add(DynamicTest.dynamicTest(name, () -> check(name, content))));
    return tests;
  }

  private static void check(String name, JsonNode golden) {
    Class<? extends Message> type = records().get(name);
    golden.get("examples").forEach(example -> checkReadAndWritten(example, type));
    ObjectNode whole = (ObjectNode) golden.get("examples").get(0);
    List<String> optional = new ArrayList<>();
    golden.get("optional").forEach(field -> optional.add(field.asText()));
    checkRefused(
        whole.deepCopy().put("surprise", 1), type, name + " has an unknown field surprise");
    checkRefused(MessageCodec.JSON.createArrayNode(), type, name + " is not an object");
    for (Map.Entry<String, JsonNode> field : whole.properties()) {
      String key = field.getKey();
      String where = name + "." + key;
      ObjectNode without = whole.deepCopy();
      without.remove(key);
      if (optional.contains(key)) {
        checkReadAndWritten(without, type);
      } else {
        boolean tag = key.equals("type") && type.isAnnotationPresent(Message.Tag.class);
        checkRefused(without, type, tag ? where + " is not " : name + " lacks the field " + key);
      }
      if (field.getValue().isIntegralNumber()) {
        checkRefused(whole.deepCopy().put(key, "secret"), type, where + " is not a whole number");
      }
      if (field.getValue().isBoolean()) {
        checkRefused(whole.deepCopy().put(key, "secret"), type, where + " is not a boolean");
      }
    }
  }

  private static void checkReadAndWritten(JsonNode example, Class<? extends Message> type) {
    // As text: a number is an IntNode or a LongNode, as it was made.
    assertEquals(
        example.toString(), MessageCodec.write(MessageCodec.read(example, type)).toString());
  }

  private static void checkRefused(
      JsonNode document, Class<? extends Message> type, String expected) {
    ProtocolException refusal =
        assertThrows(ProtocolException.class, () -> MessageCodec.read(document, type));
    assertTrue(refusal.getMessage().startsWith(expected), refusal.getMessage());
    assertFalse(refusal.getMessage().contains("secret"), "no value is quoted");
  }
}
