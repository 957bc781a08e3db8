package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.internal.SQLConf;
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

  /**
   * Set by sealberg.spark.configure: a Python program serves the catalogs, and knows properties
   * that this JVM does not.
   */
  private static final String PROGRAM_SERVES = "spark.sealberg.programServes";

  private static final String ENDED =
      "If it has ended, start a new Spark session; if not, call sealberg.spark.install(spark)"
          + " again";

  private PythonBridge() {}

  /**
   * Called from Python, once for each catalog of a session: where the socket is, and what to show
   * there.
   *
   * @param javaKms whether the KMS client of the catalog is a class of Java
   */
  public static synchronized void install(
      String catalog, String path, String token, boolean javaKms) {
    PythonBackend backend =
        BACKENDS.values().stream()
            .filter(known -> known.isAt(path, token))
            .findFirst()
            .orElseGet(() -> new PythonBackend(path, token, () -> ENDED));
    PythonBackend former = BACKENDS.put(catalog, backend);
    if (javaKms) {
      JavaKms.serve(catalog, backend);
    }
    if (former != null && !BACKENDS.containsValue(former)) {
      former.closeIdle();
    }
  }

  /** The answer of Python. */
  public static <A> A call(String catalog, Request<A> request) {
    SparkContext context = SparkContext.getOrCreate();
    // At each request, for a program may start a server at any time.
    String refusal =
        ServerCheck.refusal(
            RunningServers.names(), settings(context), hiveSettings(context), System::getenv);
    if (refusal != null) {
      throw raised(analysis(refusal));
    }
    PythonBackend installed = BACKENDS.get(catalog);
    return call(installed == null ? started(catalog) : installed, catalog, request);
  }

  /** The Python that this JVM starts where no Python program has called install. */
  private static PythonBackend started(String catalog) {
    SparkContext context = SparkContext.getOrCreate();
    SparkConf conf = context.conf();
    // `configure` sets it in a session only where the application runs already; no session unsets
    // it.
    if (conf.get(PROGRAM_SERVES, "false").equals("true")
        || SQLConf.get().getConfString(PROGRAM_SERVES, "false").equals("true")) {
      throw raised(
          analysis(
              "catalog "
                  + catalog
                  + " has no Python behind it: call sealberg.spark.install(spark) first"));
    }
    String refusal = NetworkCheck.refusal(settings(context));
    refusal = refusal == null ? LocalDiskCheck.refusal(settings(context)) : refusal;
    if (refusal != null) {
      throw raised(analysis(refusal));
    }
    return PythonProcess.serving(catalog, context);
  }

  private static Function<String, String> settings(SparkContext context) {
    SparkConf conf = context.conf();
    return name -> conf.contains(name) ? conf.get(name) : null;
  }

  /** --hiveconf sets system properties; hive-site.xml becomes a part of Hadoop's configuration. */
  static Function<String, String> hiveSettings(SparkContext context) {
    return name -> System.getProperty(name, context.hadoopConfiguration().get(name));
  }

  @SuppressWarnings("unchecked") // the codec makes what the request says
  static <A> A call(PythonBackend backend, String catalog, Request<A> request) {
    JsonNode answer = backend.call(catalog, request);
    if (answer.has("error")) {
      throw raised(exception(MessageCodec.read(answer.get("error"), Failure.class), request));
    }
    return (A)
        MessageCodec.read(answer.get("ok"), request.answer(), "the answer to " + request.verb());
  }

  private static Exception exception(Failure failure, Request<?> request) {
    if (request.namespace().isEmpty() && request.newTable().isEmpty()) {
      return analysis(failure.text()); // only the text says what the failure is about
    }
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
