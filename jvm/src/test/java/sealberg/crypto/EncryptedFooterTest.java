package sealberg.crypto;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/**
 * The ends of encrypted Parquet files in footers.json, which Python's reader is tested with too.
 */
class EncryptedFooterTest {
  @TestFactory
  List<DynamicTest> footers() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (InputStream vectors = getClass().getResourceAsStream("/footers.json")) {
      for (JsonNode vector : new ObjectMapper().readTree(vectors)) {
        tests.add(DynamicTest.dynamicTest(vector.get("name").asText(), () -> check(vector)));
      }
    }
    return tests;
  }

  private static void check(JsonNode vector) {
    byte[] file = HexFormat.of().parseHex(vector.get("file").asText());
    if (vector.get("accepted").asBoolean()) {
      assertEquals(vector.get("footer_length").asInt(), accepted(file));
    } else {
      assertThrows(FileIntegrityException.class, () -> accepted(file));
    }
  }

  private static int accepted(byte[] file) {
    int length = EncryptedFooter.length("file", file.length, file);
    EncryptedFooter.checkAlgorithm("file", file, length);
    return length;
  }

  @Test
  void aRefusalNamesTheFile() {
    FileIntegrityException refusal =
        assertThrows(
            FileIntegrityException.class,
            () -> EncryptedFooter.length("s3://bucket/data.parquet", 12, new byte[12]));
    assertEquals(
        "s3://bucket/data.parquet", refusal.getMessage().split(": ", 2)[0], refusal.getMessage());
  }
}
