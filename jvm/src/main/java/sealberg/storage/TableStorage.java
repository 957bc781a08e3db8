package sealberg.storage;

import java.io.IOException;
import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.bridge.StorageMessages.StoreSettings;
import sealberg.bridge.TableMessages.TableHandle;
import sealberg.catalog.EncryptedTable;
import sealberg.read.FileSplit;

/**
 * How the tasks of a query reach the files of a table: the storage settings of the catalog,
 * translated to Hadoop's.
 *
 * <pre>
 *   Python: settings of the catalog, vended credentials ──> driver: without settings that the user has set for Hadoop
 *     ──> tasks, together with the keys of their files ──> FileSystemCache
 * </pre>
 *
 * The settings are secrets. They are never put into the configuration of Spark or of the session,
 * which other users can see.
 */
public final class TableStorage implements Serializable {
  private static final long serialVersionUID = 1;

  static final TableStorage NONE = new TableStorage(new TreeMap<>(), null, "", null);

  /** Schemes of Iceberg and PyIceberg that have another name in Hadoop. */
  private static final Map<String, String> SCHEMES = Map.of("s3", "s3a", "s3n", "s3a", "gcs", "gs");

  private static final Map<String, String> PREFIXES =
      Map.of("s3a", "fs.s3a.", "gs", "fs.gs.", "abfs", "fs.azure.", "abfss", "fs.azure.");

  /** Credentials are renewed when less time than this is left. */
  private static final long FRESH_MS = 5 * 60 * 1000;

  private final TreeMap<String, String> settings;
  private final Long expiresAtMs;
  private final long madeAtMs = System.currentTimeMillis();
  private final String catalog;
  private final TableHandle handle; // for requests of new credentials
  private transient ConcurrentHashMap<String, Map<String, String>> byPrefix;
  private transient TableStorage fresher;

  private TableStorage(
      TreeMap<String, String> settings, Long expiresAtMs, String catalog, TableHandle handle) {
    this.settings = settings;
    this.expiresAtMs = expiresAtMs;
    this.catalog = catalog;
    this.handle = handle;
  }

  // -- on the driver
  // --------------------------------------------------------------------------------------

  /** The settings that Python returned, without those that the user has set for Hadoop. */
  public static TableStorage of(EncryptedTable table, StorageSettings answer, SparkSession spark) {
    return of(table.catalog(), table.handle(), answer, spark);
  }

  public static TableStorage of(
      String catalog, TableHandle handle, StorageSettings answer, SparkSession spark) {
    if (answer == null) {
      return NONE;
    }
    TableStorage made = of(catalog, handle, answer, FileSplit.conf(spark));
    if (made.expiresAtMs != null) {
      CredentialRefresh.serve();
    }
    return made;
  }

  static TableStorage of(
      String catalog, TableHandle handle, StorageSettings answer, Configuration conf) {
    TreeMap<String, String> settings = new TreeMap<>();
    for (StoreSettings store : answer.stores()) {
      TreeMap<String, String> found = new TreeMap<>();
      store
          .settings()
          .forEach(
              (name, value) -> {
                if (!isUsers(conf, name)) {
                  found.put(name, value);
                }
              });
      if (store.credentialNames().stream().noneMatch(name -> isUsers(conf, name))) {
        found.putAll(store.credentials());
      }
      if (!found.isEmpty()) {
        // Two sessions with different Hadoop settings must not share a connection either.
        String prefix = store.prefix();
        conf.getPropsWithPrefix(prefix)
            .forEach(
                (name, value) -> {
                  if (isUsers(conf, prefix + name)) {
                    found.put(prefix + name, value);
                  }
                });
      }
      settings.putAll(found);
    }
    return new TableStorage(settings, answer.expiresAtMs(), catalog, handle);
  }

  /**
   * Whether the user has set this name. Defaults of Hadoop and Spark, and settings that Spark
   * copies from the environment, do not count.
   */
  private static boolean isUsers(Configuration conf, String name) {
    if (conf.getRaw(name) == null) {
      return false;
    }
    String[] sources = conf.getPropertySources(name);
    String last = sources == null || sources.length == 0 ? "" : sources[sources.length - 1];
    boolean bySpark = last.startsWith("Set by Spark") && !last.contains("'spark.");
    return !last.endsWith("-default.xml") && !bySpark;
  }

  // -- in a task
  // ------------------------------------------------------------------------------------------

  /**
   * The Hadoop path of a location. A scheme for which the user has configured an implementation is
   * kept.
   */
  public static Path path(String location, Configuration conf) {
    int end = location.indexOf(':');
    String scheme = end < 0 ? "" : location.substring(0, end);
    String other = SCHEMES.get(scheme);
    boolean known = other == null || conf.get("fs." + scheme + ".impl") != null;
    return new Path(known ? location : other + location.substring(end));
  }

  /** The file system of this path; the caller holds it as long as a stream of it is open. */
  public FileSystemCache.Held fileSystem(Path path, Configuration conf) throws IOException {
    return FileSystemCache.get(path, fresh(conf).forScheme(path.toUri().getScheme()), conf);
  }

  private synchronized TableStorage fresh(Configuration conf) throws IOException {
    TableStorage newest = fresher == null ? this : fresher;
    if (newest.isAged()) {
      newest = CredentialRefresh.ask(newest, conf);
      fresher = newest;
    }
    return newest;
  }

  /**
   * Whether the credentials expire soon: in minutes, or in the last quarter of a short lifetime.
   */
  boolean isAged() {
    if (expiresAtMs == null) {
      return false;
    }
    return expiresAtMs - System.currentTimeMillis()
        < Math.min(FRESH_MS, (expiresAtMs - madeAtMs) / 4);
  }

  String catalog() {
    return catalog;
  }

  TableHandle handle() {
    return handle;
  }

  private synchronized Map<String, String> forScheme(String scheme) {
    String prefix = scheme == null ? null : PREFIXES.get(scheme);
    if (prefix == null) {
      return Map.of();
    }
    byPrefix = byPrefix == null ? new ConcurrentHashMap<>() : byPrefix;
    return byPrefix.computeIfAbsent(
        prefix,
        start ->
            new TreeMap<>(settings.subMap(start, start.substring(0, start.length() - 1) + "/")));
  }

  /** Shows no settings: they are secrets. */
  @Override
  public String toString() {
    return "storage of " + catalog;
  }
}
