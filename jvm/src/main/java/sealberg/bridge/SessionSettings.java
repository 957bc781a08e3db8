package sealberg.bridge;

import java.util.LinkedHashMap;
import java.util.Map;
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

  public static Map<String, String> current() {
    return settings(name -> name.startsWith("spark.wap.") || name.startsWith("spark.sql.iceberg."));
  }

  /** spark.sql.catalog.NAME.*, with their whole names. */
  public static Map<String, String> ofCatalog(String catalog) {
    String prefix = "spark.sql.catalog." + catalog + ".";
    return settings(name -> name.startsWith(prefix));
  }

  /** The same, with the names that the catalog knows. */
  static Map<String, String> optionsOf(String catalog) {
    int prefix = ("spark.sql.catalog." + catalog + ".").length();
    Map<String, String> options = new LinkedHashMap<>();
    ofCatalog(catalog).forEach((name, value) -> options.put(name.substring(prefix), value));
    return options;
  }

  private static Map<String, String> settings(Predicate<String> wanted) {
    Map<String, String> found = new LinkedHashMap<>();
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
