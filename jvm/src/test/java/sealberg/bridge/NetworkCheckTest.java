package sealberg.bridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** What is refused before a session gets keys. Python's tests read the same files of cases. */
class NetworkCheckTest {
  @TestFactory
  List<DynamicTest> networks() throws IOException {
    return cases("/network.json", NetworkCheck::refusal);
  }

  @TestFactory
  List<DynamicTest> localDisks() throws IOException {
    return cases("/local_disks.json", LocalDiskCheck::refusal);
  }

  private List<DynamicTest> cases(String file, Function<Function<String, String>, String> refusalOf)
      throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (InputStream cases = getClass().getResourceAsStream(file)) {
      for (JsonNode each : MessageCodec.JSON.readTree(cases)) {
        Map<String, String> settings = new HashMap<>();
        each.get("settings")
            .properties()
            .forEach(s -> settings.put(s.getKey(), s.getValue().asText()));
        String refusal = each.get("refusal").isNull() ? null : each.get("refusal").asText();
        tests.add(
            DynamicTest.dynamicTest(
                settings.toString(), () -> assertEquals(refusal, refusalOf.apply(settings::get))));
      }
    }
    return tests;
  }

  private static String server(
      String command, Map<String, String> settings, Map<String, String> hive) {
    return ServerCheck.refusal(command, settings::get, hive::get, name -> null);
  }

  @Test
  void aConnectServerNeedsATokenOrAnInterceptor() {
    String command = "org.apache.spark.deploy.SparkSubmit --class x.SparkConnectServer";
    String refusal = server(command, Map.of(), Map.of());
    assertTrue(refusal.contains("SPARK_CONNECT_AUTHENTICATE_TOKEN is not set"), refusal);
    assertNull(server(command, Map.of("spark.connect.authenticate.token", "t"), Map.of()));
    assertNull(server(command, Map.of("spark.connect.grpc.interceptor.classes", "I"), Map.of()));
    assertNull(server(command, Map.of("spark.sealberg.allowOpenServer", "true"), Map.of()));
    assertNull(ServerCheck.refusal(command, n -> null, n -> null, variable -> "token"));
    Map<String, String> plugin =
        Map.of("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin");
    assertTrue(server("a.Job", plugin, Map.of()).contains("Spark Connect server"));
  }

  @Test
  void aThriftServerNeedsAuthentication() {
    String command = "SparkSubmit --class org.apache.spark.sql.hive.thriftserver.HiveThriftServer2";
    String key = "hive.server2.authentication";
    for (Map<String, String> open : List.of(Map.<String, String>of(), Map.of(key, "nosasl"))) {
      assertTrue(server(command, Map.of(), open).contains(key + "="), open.toString());
    }
    assertNull(server(command, Map.of(), Map.of(key, "LDAP")));
    assertNull(server("a.Job", Map.of(), Map.of()));
  }
}
