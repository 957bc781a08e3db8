package sealberg.sql;

import java.util.List;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SQLConf;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.SessionSettings;

/**
 * With {@code spark.sealberg.strict=true} at the start: what is refused before a statement is
 * resolved, because resolving it would already act as the server.
 *
 * <pre>
 *   ${env:VAULT_TOKEN}             Spark's parser puts variables of the server's process into a statement
 *   SET spark.sql.catalog.x=...    the first name of x makes an object of that class, with these options
 *   SET fs.s3a.endpoint=...        file systems are shared: the next user would get the attacker's
 * </pre>
 */
final class StrictSession {
  static final String STRICT = "spark.sealberg.strict";

  /** Statements that stay: they put a session right, and resolve no table. */
  private static final Set<String> OF_SETTINGS = Set.of("SetCommand", "ResetCommand");

  private StrictSession() {}

  static boolean isOn() {
    return SparkContext.getOrCreate().conf().get(STRICT, "false").strip().equalsIgnoreCase("true");
  }

  /** Any text that Spark parses: a statement, an expression, the filter of a procedure. */
  static void checkText(Object[] arguments) {
    if (arguments != null
        && arguments.length > 0
        && arguments[0] instanceof String text
        && isOn()
        && SessionSettings.namesEnvironment(text)) {
      throw refused("${env:...} and ${system:...} are", "show what the server's process has");
    }
  }

  static void check(SparkSession session, Object parsed) {
    if (!(parsed instanceof LogicalPlan)
        || OF_SETTINGS.contains(parsed.getClass().getSimpleName())
        || !isOn()) {
      return;
    }
    SQLConf conf = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().conf();
    List<String> names = SessionSettings.actsAsServer(conf);
    if (!names.isEmpty()) {
      throw refused(
          String.join(", ", names) + " of a session is",
          "choose code, storage or secrets of the server. RESET it");
    }
  }

  /** An AnalysisException that says so. */
  static RuntimeException refused(String what, String danger) {
    return PythonBridge.<RuntimeException>raised(
        PythonBridge.analysis(
            STRICT + "=true: " + what + " refused on this server: it would " + danger));
  }
}
