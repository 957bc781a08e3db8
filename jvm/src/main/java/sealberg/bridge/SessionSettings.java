package sealberg.bridge;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.Predicate;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The settings of the session that Iceberg defines: {@code spark.wap.*}, {@code
 * spark.sql.iceberg.*} and the options of a catalog.
 *
 * <p>Python checks and obeys them. They are read when a statement is planned, so that a write is
 * committed as it was planned, whatever the session sets meanwhile.
 */
public final class SessionSettings {
  private SessionSettings() {}

  public static ObjectNode current() {
    return settings(name -> name.startsWith("spark.wap.") || name.startsWith("spark.sql.iceberg."));
  }

  /** spark.sql.catalog.NAME.*, with their whole names. */
  public static ObjectNode ofCatalog(String catalog) {
    String prefix = "spark.sql.catalog." + catalog + ".";
    return settings(name -> name.startsWith(prefix));
  }

  private static ObjectNode settings(Predicate<String> wanted) {
    ObjectNode found = PythonBridge.object();
    SQLConf.get()
        .getAllConfs()
        .foreach(
            setting -> {
              if (wanted.test(setting._1)) {
                found.put(setting._1, setting._2);
              }
              return null;
            });
    return found;
  }
}
