package org.apache.iceberg.spark;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hive.HiveCatalog;
import org.apache.iceberg.hive.TestHiveMetastore;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * One metastore and one Spark for all classes of a run. In this package, because the fields of
 * TestBase are.
 *
 * <pre>
 *   -Dsuite.connector=sealberg   every catalog of the tests is sealberg's, with a default key
 *   -Dsuite.connector=iceberg    every catalog is Iceberg's own, on tables that Java encrypts
 * </pre>
 */
public final class SuiteSession {
  static final String CATALOG = "testhive";
  static final boolean OURS = !"iceberg".equals(System.getProperty("suite.connector"));

  /** What the harness did for the test that runs. */
  public static final Set<String> NOTES = ConcurrentHashMap.newKeySet();

  private static final String KMS = "org.apache.iceberg.encryption.UnitestKMS";
  private static final String KEY = "keyA";
  private static final int NOTED = 300;
  private static final Pattern VERSION =
      Pattern.compile("'format-version'(\\s*=\\s*|\\s+)'?[12]'?(?=[\\s,)])");
  // A refusal for want of a feature, which is no refusal in other words.
  private static final Pattern MISSING =
      Pattern.compile(
          "FAILED_TO_LOAD_ROUTINE|ABILITY\\.VIEWS|CATALOG_OPERATION|is not supported for tables of"
              + " sealberg");
  private static Map<String, String> initial;
  private static Map<String, String> before = Map.of();

  private SuiteSession() {}

  public static synchronized void start() {
    if (TestBase.spark != null && !TestBase.spark.sparkContext().isStopped()) {
      return;
    }
    try {
      begin();
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static void begin() throws Exception {
    if (TestBase.metastore == null) {
      TestBase.metastore = new TestHiveMetastore();
      TestBase.metastore.start(new HiveConf(new Configuration(), SuiteSession.class));
      TestBase.hiveConf = TestBase.metastore.hiveConf();
    }
    SparkSession.clearActiveSession();
    SparkSession.clearDefaultSession();
    SparkSession.Builder builder =
        SparkSession.builder()
            .master("local[2]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.authenticate", "true")
            .config("spark.io.encryption.enabled", "true")
            .config("spark.sealberg.python", System.getProperty("suite.python"))
            .config("spark.sql.warehouse.dir", System.getProperty("java.io.tmpdir") + "/spark")
            .config("spark.hadoop.hive.metastore.uris", uri())
            // As the set-up of Iceberg's tests has them.
            .config("spark.testing", "true")
            .config("spark.sql.sources.partitionOverwriteMode", "dynamic")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.hive.metastorePartitionPruningFallbackOnException", "true")
            .config("spark.sql.legacy.respectNullabilityInTextDatasetConversion", "true");
    // The tests set this once more in the session, where sealberg would refuse it as new.
    builder.config("spark.sql.catalog." + CATALOG, connector());
    properties()
        .forEach(
            (name, value) -> builder.config("spark.sql.catalog." + CATALOG + "." + name, value));
    if (!OURS) {
      builder.config(
          "spark.sql.extensions",
          "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions");
    }
    TestBase.spark = builder.enableHiveSupport().getOrCreate();
    TestBase.sparkContext = JavaSparkContext.fromSparkContext(TestBase.spark.sparkContext());
    TestBase.catalog =
        (HiveCatalog)
            CatalogUtil.loadCatalog(
                HiveCatalog.class.getName(), "hive", javaProperties(), TestBase.hiveConf);
    if (!TestBase.catalog.namespaceExists(Namespace.of("default"))) {
      TestBase.catalog.createNamespace(Namespace.of("default"));
    }
    if (initial == null) {
      initial = settings();
    }
  }

  /** Between two classes: no tables, and the catalog and the settings of the beginning. */
  public static synchronized void stop() throws Exception {
    SparkSession spark = TestBase.spark;
    if (spark == null || spark.sparkContext().isStopped()) {
      TestBase.spark = null; // some classes stop it
      return;
    }
    dropTables(spark);
    reset(spark, initial);
  }

  private static void dropTables(SparkSession spark) throws Exception {
    spark.catalog().clearCache();
    spark.catalog().setCurrentCatalog("spark_catalog");
    spark.catalog().setCurrentDatabase("default");
    TestBase.metastore.reset();
  }

  /** Before each test: what clean() goes back to, which has the settings of the class. */
  public static synchronized void remember() {
    if (TestBase.spark != null && !TestBase.spark.sparkContext().isStopped()) {
      before = settings();
    }
  }

  /** After a test that failed: no tables, and the settings from before the test. */
  public static synchronized void clean() {
    SparkSession spark = TestBase.spark;
    if (spark == null || spark.sparkContext().isStopped()) {
      return;
    }
    try {
      dropTables(spark);
      reset(spark, before);
    } catch (Exception error) {
      System.err.println("what the test that failed has left could not be removed: " + error);
    }
  }

  private static void reset(SparkSession spark, Map<String, String> wanted) {
    settings()
        .forEach(
            (name, value) -> {
              if (!spark.conf().isModifiable(name) || name.startsWith("spark.sql.catalog.")) {
                return;
              }
              if (!wanted.containsKey(name)) {
                spark.conf().unset(name);
              } else if (!wanted.get(name).equals(value)) {
                spark.conf().set(name, wanted.get(name));
              }
            });
  }

  private static Map<String, String> settings() {
    return new LinkedHashMap<>(CollectionConverters.asJava(TestBase.spark.conf().getAll()));
  }

  static String uri() {
    return TestBase.hiveConf.get("hive.metastore.uris").replace("localhost", "127.0.0.1");
  }

  static String connector() {
    return OURS ? "sealberg.catalog.EncryptedCatalog" : "org.apache.iceberg.spark.SparkCatalog";
  }

  /** The properties of sealberg's catalog, or of Iceberg's own. */
  static Map<String, String> properties() {
    Map<String, String> made = new LinkedHashMap<>();
    made.put("type", "hive");
    made.put("default-namespace", "default");
    made.put("uri", uri());
    made.put("cache-enabled", "false");
    if (OURS) {
      made.put("encryption.kms-impl", KMS);
      made.put("encryption.default-key-id", KEY);
      made.put("encryption.allow-plaintext-files", System.getProperty("suite.plaintext", "false"));
    } else {
      made.putAll(javaProperties());
    }
    return made;
  }

  private static Map<String, String> javaProperties() {
    return Map.of(
        "table-default.format-version",
        "3",
        "encryption.kms-impl",
        KMS,
        "table-default.encryption.key-id",
        KEY);
  }

  /**
   * Whether a failed assertion is about the text or the class of a refusal, or about a detail that
   * Spark adds.
   */
  public static boolean isOtherWords(Object assertion, String check, Object[] wanted) {
    Object found = actual(assertion);
    if (!OURS) {
      return false;
    }
    if (check.equals("isEqualTo")) {
      boolean same =
          found instanceof DataType one
              && wanted[0] instanceof DataType other
              && one.sql().equals(other.sql());
      if (same) {
        NOTES.add("a type with metadata in its fields");
      }
      return same;
    }
    String said = String.valueOf(found);
    if (!(found instanceof Throwable) || MISSING.matcher(said).find()) {
      return false;
    }
    NOTES.add(
        "refused in other words: "
            + said.substring(0, Math.min(NOTED, said.length()))
            + " <> "
            + check
            + Arrays.deepToString(wanted));
    return true;
  }

  private static Object actual(Object assertion) {
    try {
      Class<?> type = assertion.getClass();
      while (!type.getName().equals("org.assertj.core.api.AbstractAssert")) {
        type = type.getSuperclass();
      }
      Field field = type.getDeclaredField("actual");
      field.setAccessible(true);
      return field.get(assertion);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException(error);
    }
  }

  /** Encrypted tables are of version 3: a statement that asks for 1 or 2 asks for 3. */
  public static String statement(String text) {
    String changed = VERSION.matcher(text).replaceAll("'format-version' = '3'");
    if (!changed.equals(text)) {
      NOTES.add("version 3 instead of 1 or 2");
    }
    return changed;
  }

  /** Java's own view of a table of the catalog under test; null for tables elsewhere. */
  public static Table table(SparkSession spark, String name) throws Exception {
    if (!OURS) {
      return null;
    }
    List<String> parts =
        CollectionConverters.asJava(
            spark.sessionState().sqlParser().parseMultipartIdentifier(name));
    if (parts.get(0).equals(CATALOG)) {
      parts = parts.subList(1, parts.size());
    } else if (!spark.catalog().currentCatalog().equals(CATALOG)) {
      return null;
    }
    TableIdentifier found = TableIdentifier.of(parts.toArray(String[]::new));
    return TestBase.catalog.loadTable(
        parts.size() > 1 ? found : TableIdentifier.of("default", found.name()));
  }

  public static Catalog catalog(String name) {
    return OURS && name.equals(CATALOG) ? TestBase.catalog : null;
  }
}
