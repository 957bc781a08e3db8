package sealberg.bridge;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.BiPredicate;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.internal.SQLConf;
import sealberg.bridge.CallMessages.Session;

/**
 * What a session has set, and what the application was started with.
 *
 * <pre>
 *   spark.wap.*, spark.sql.iceberg.*    of the session: Python checks and obeys them
 *   spark.sql.catalog.NAME.*            of the start (SparkConf); what a session sets is told to Python by name
 *   fs.*, hadoop.* ...                  likewise: Spark puts a session's settings into Hadoop's configuration
 * </pre>
 *
 * Whoever may send SQL to a server may set any name in a session of his own. Settings of a session
 * are read when a statement is planned, so that a write is committed as it was planned, whatever
 * the session sets meanwhile.
 */
public final class SessionSettings {
  private static final String CATALOGS = "spark.sql.catalog.";

  /** Names of Hadoop and Parquet that say how storage is reached, and by which code. */
  private static final List<String> WAYS_TO_STORAGE =
      List.of("fs.", "dfs.", "hadoop.", "ipc.", "parquet.crypto.", "parquet.encryption.");

  private SessionSettings() {}

  public static Map<String, String> current() {
    return settings(
        SQLConf.get(),
        (name, value) -> name.startsWith("spark.wap.") || name.startsWith("spark.sql.iceberg."));
  }

  /**
   * spark.sql.catalog.NAME.* of the application's start, with the names that the catalog knows. A
   * catalog of type hive without a uri is Spark's own metastore.
   */
  public static Map<String, String> startOptions(String catalog) {
    SparkContext context = SparkContext.getOrCreate();
    SparkConf conf = context.conf();
    String prefix = prefix(catalog);
    Map<String, String> options = new TreeMap<>();
    Arrays.stream(conf.getAll())
        .filter(setting -> setting._1().startsWith(prefix))
        .forEach(setting -> options.put(setting._1().substring(prefix.length()), setting._2()));
    String metastore = context.hadoopConfiguration().get("hive.metastore.uris", "");
    if ("hive".equals(options.get("type")) && !metastore.isEmpty()) {
      options.putIfAbsent("uri", metastore);
    }
    return options;
  }

  /** The present session: its user, and how it differs from the application's start; or null. */
  static Session session(String catalog) {
    String prefix = prefix(catalog);
    SparkContext context = SparkContext.getOrCreate();
    List<String> differ =
        changed(SQLConf.get(), (name, value) -> name.startsWith(prefix) || isWayToStorage(name));
    RunningServers.User user =
        RunningServers.user(context, ServerCheck.thriftAsks(PythonBridge.hiveSettings(context)));
    if (user == null) {
      return differ.isEmpty() ? null : new Session(differ, null, null);
    }
    return new Session(differ, user.name(), user.authenticated());
  }

  /**
   * What no session of a strict server may have set: a catalog of any class, how any storage is
   * reached, and words of the server's environment.
   */
  public static List<String> actsAsServer(SQLConf conf) {
    return changed(
        conf,
        (name, value) ->
            name.startsWith(CATALOGS) || isWayToStorage(name) || namesEnvironment(value));
  }

  /** Whether Spark would put a variable of the server's process in the place of these words. */
  public static boolean namesEnvironment(String text) {
    return text.contains("${env:") || text.contains("${system:");
  }

  /** Names that a session has otherwise than the application's start. */
  private static List<String> changed(SQLConf conf, BiPredicate<String, String> wanted) {
    SparkConf start = SparkContext.getOrCreate().conf();
    return settings(conf, wanted).entrySet().stream()
        .filter(set -> !set.getValue().equals(start.get(set.getKey(), null)))
        .map(Map.Entry::getKey)
        .sorted()
        .toList();
  }

  private static boolean isWayToStorage(String name) {
    return WAYS_TO_STORAGE.stream().anyMatch(name::startsWith);
  }

  private static String prefix(String catalog) {
    return CATALOGS + catalog + ".";
  }

  private static Map<String, String> settings(SQLConf conf, BiPredicate<String, String> wanted) {
    Map<String, String> found = new LinkedHashMap<>();
    conf.getAllConfs()
        .foreach(
            setting -> {
              if (wanted.test(setting._1, setting._2)) {
                found.put(setting._1, setting._2);
              }
              return null;
            });
    return found;
  }
}
