package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
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
import sealberg.bridge.CallMessages.Failure;

/**
 * The one way to Python, where everything is decided.
 *
 * <pre>
 *   catalog, Request  ── PythonBackend ──>  sealberg.spark.driver.backend
 *                     <───────────────────  {"ok": answer}  or  {"error": Failure}
 * </pre>
 *
 * A Failure is raised here, as the exception that Spark expects, with the text of the Python error.
 */
public final class PythonBridge {
  private static final Map<String, PythonBackend> BACKENDS = new ConcurrentHashMap<>();

  private PythonBridge() {}

  /**
   * Called from Python, once for each catalog of a session: where the socket is, and what to show
   * there.
   */
  public static synchronized void install(String catalog, String path, String token) {
    PythonBackend backend =
        BACKENDS.values().stream()
            .filter(known -> known.isAt(path, token))
            .findFirst()
            .orElseGet(() -> new PythonBackend(path, token));
    PythonBackend former = BACKENDS.put(catalog, backend);
    if (former != null && !BACKENDS.containsValue(former)) {
      former.closeIdle();
    }
  }

  /** The answer of Python. */
  @SuppressWarnings("unchecked") // the codec makes what the request says
  public static <A> A call(String catalog, Request<A> request) {
    PythonBackend backend = BACKENDS.get(catalog);
    if (backend == null) {
      throw raised(
          analysis(
              "catalog "
                  + catalog
                  + " has no Python behind it: call sealberg.spark.install(spark) first"));
    }
    JsonNode answer = backend.call(catalog, request);
    if (answer.has("error")) {
      throw raised(exception(MessageCodec.read(answer.get("error"), Failure.class), request));
    }
    return (A)
        MessageCodec.read(answer.get("ok"), request.answer(), "the answer to " + request.verb());
  }

  private static Exception exception(Failure failure, Request<?> request) {
    return switch (failure.kind()) {
      case NO_SUCH_TABLE -> new NoSuchTableException(identifier(request.table()));
      case TABLE_EXISTS -> new TableAlreadyExistsException(identifier(request.newTable()));
      case NO_SUCH_NAMESPACE ->
          new NoSuchNamespaceException(request.namespace().toArray(new String[0]));
      case NAMESPACE_EXISTS ->
          new NamespaceAlreadyExistsException(request.namespace().toArray(new String[0]));
      case NAMESPACE_NOT_EMPTY ->
          new NonEmptyNamespaceException(request.namespace().toArray(new String[0]));
      case ERROR -> analysis(failure.text());
    };
  }

  private static Identifier identifier(List<String> table) {
    return Identifier.of(
        table.subList(0, table.size() - 1).toArray(new String[0]), table.get(table.size() - 1));
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
}
