package sealberg.bridge;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.Option;

/**
 * The one way to Python, where everything is decided.
 *
 * <pre>
 *   catalog, verb, {"arguments": ...}  ── PythonBackend ──>  sealberg.spark.driver.backend
 *                                      <───────────────────  {"ok": answer}  or  {"error": {"kind": "...", "text": "..."}}
 * </pre>
 *
 * Errors come as values. They are raised here, as the exceptions that Spark expects, with the text
 * of the Python error.
 */
public final class PythonBridge {
  public static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, PythonBackend> BACKENDS = new ConcurrentHashMap<>();

  private PythonBridge() {}

  /**
   * Called from Python, once for each catalog of a session: where the socket is, and what to show
   * there.
   */
  public static synchronized void install(String catalog, String path, String token) {
    PythonBackend backend =
        BACKENDS.values().stream()
            .filter(one -> one.isAt(path, token))
            .findFirst()
            .orElseGet(() -> new PythonBackend(path, token));
    PythonBackend former = BACKENDS.put(catalog, backend);
    if (former != null && !BACKENDS.containsValue(former)) {
      former.closeIdle();
    }
  }

  public static JsonNode call(String catalog, String verb, ObjectNode arguments) {
    PythonBackend backend = BACKENDS.get(catalog);
    if (backend == null) {
      throw raised(
          analysis(
              "catalog "
                  + catalog
                  + " has no Python behind it: call sealberg.spark.install(spark) first"));
    }
    JsonNode answer = backend.call(catalog, verb, arguments);
    if (answer.has("error")) {
      throw raised(exception(answer.get("error"), arguments));
    }
    return answer.get("ok");
  }

  private static Exception exception(JsonNode error, ObjectNode arguments) {
    String text = error.get("text").asText();
    switch (error.get("kind").asText()) {
      case "no-such-table":
        return new NoSuchTableException(identifier(arguments.get("table")));
      case "table-exists":
        return new TableAlreadyExistsException(
            identifier(arguments.get(arguments.has("to") ? "to" : "table")));
      case "no-such-namespace":
        return new NoSuchNamespaceException(namespace(arguments));
      case "namespace-exists":
        return new NamespaceAlreadyExistsException(namespace(arguments));
      case "namespace-not-empty":
        return new NonEmptyNamespaceException(namespace(arguments));
      default:
        return analysis(text);
    }
  }

  /** Plain words, without one of Spark's error classes around them. */
  public static AnalysisException analysis(String text) {
    return new AnalysisException(
        text,
        Option.empty(),
        Option.empty(),
        Option.empty(),
        Option.empty(),
        scala.collection.immutable.Map$.MODULE$.<String, String>empty(),
        new QueryContext[0]);
  }

  /** Spark's methods throw checked exceptions that their Java signatures do not always declare. */
  @SuppressWarnings("unchecked")
  public static <E extends Exception> RuntimeException raised(Exception error) throws E {
    throw (E) error;
  }

  // -- JSON -----------------------------------------------------------------------------------

  public static JsonNode parsed(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException(
          "not JSON"); // neither the text nor what the parser says: both may hold keys
    }
  }

  public static JsonNode parsed(byte[] text) {
    try {
      return JSON.readTree(text);
    } catch (IOException error) {
      throw new IllegalStateException(
          "not JSON"); // neither the text nor what the parser says: both may hold keys
    }
  }

  public static ObjectNode object() {
    return JSON.createObjectNode();
  }

  public static ArrayNode names(String... names) {
    ArrayNode array = JSON.createArrayNode();
    for (String name : names) {
      array.add(name);
    }
    return array;
  }

  public static ArrayNode names(Identifier table) {
    return names(table.namespace()).add(table.name());
  }

  public static ObjectNode strings(Map<String, String> values) {
    ObjectNode node = object();
    values.forEach(node::put);
    return node;
  }

  public static Map<String, String> strings(JsonNode node) {
    Map<String, String> values = new LinkedHashMap<>();
    node.properties().forEach(one -> values.put(one.getKey(), one.getValue().asText()));
    return values;
  }

  public static String[] texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(one -> texts.add(one.asText()));
    return texts.toArray(new String[0]);
  }

  private static Identifier identifier(JsonNode array) {
    String[] parts = texts(array);
    String[] namespace = java.util.Arrays.copyOf(parts, parts.length - 1);
    return Identifier.of(namespace, parts[parts.length - 1]);
  }

  private static String[] namespace(ObjectNode arguments) {
    return arguments.has("namespace")
        ? texts(arguments.get("namespace"))
        : identifier(arguments.get("table")).namespace();
  }
}
