package sealberg.catalog;

import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;

/**
 * Spark's own catalog with Iceberg tables in it: two-part names reach both, as with Iceberg's
 * SparkSessionCatalog.
 *
 * <pre>
 *   spark.sql.catalog.spark_catalog = sealberg.catalog.SessionCatalog
 *
 *   db.table   ──>  Python's catalog, if it has the table   ──>  else Spark's catalog
 *   db         ──>  Spark's catalog; Python's gets a namespace when the first Iceberg table needs it
 *   CREATE     ──>  USING iceberg: Python's catalog         ──>  USING anything else: Spark's
 * </pre>
 *
 * Where both are one Hive Metastore, they have the same namespaces. Names are those of Spark's
 * catalog: in lower case, unless the session is case-sensitive.
 */
public final class SessionCatalog extends EncryptedCatalog implements CatalogExtension {
  public static final String NAME = "spark_catalog";

  private TableCatalog tables;
  private SupportsNamespaces namespaces;
  private FunctionCatalog functions;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    if (!name.equals(NAME)) {
      throw new IllegalArgumentException(
          "spark.sql.catalog."
              + name
              + ": only spark_catalog can be a "
              + SessionCatalog.class.getName()
              + ", which has Spark's own catalog behind it; for a catalog of another name use "
              + EncryptedCatalog.class.getName());
    }
    super.initialize(name, options);
  }

  @Override
  public void setDelegateCatalog(CatalogPlugin spark) {
    tables = (TableCatalog) spark;
    namespaces = (SupportsNamespaces) spark;
    functions = (FunctionCatalog) spark;
  }

  @Override
  public String[] defaultNamespace() {
    return namespaces.defaultNamespace();
  }

  /** DDL of Iceberg is for Iceberg tables: of another table, Spark says what it always says. */
  @Override
  public boolean answersFor(Identifier table) {
    return owns(spelled(table));
  }

  // -- names ----------------------------------------------------------------------------------

  /**
   * As Spark's catalog spells it. What stands behind the name of the table, a branch or a tag, is
   * left as it is.
   */
  @Override
  public Identifier spelled(Identifier table) {
    String[] namespace = table.namespace().clone();
    for (int at = 0; at < Math.min(2, namespace.length); at++) {
      namespace[at] = spelled(namespace[at]);
    }
    boolean isTable = namespace.length < 2;
    return Identifier.of(namespace, isTable ? spelled(table.name()) : table.name());
  }

  private static String spelled(String name) {
    return SQLConf.get().caseSensitiveAnalysis() ? name : name.toLowerCase(Locale.ROOT);
  }

  private static String[] spelled(String[] namespace) {
    return Arrays.stream(namespace).map(SessionCatalog::spelled).toArray(String[]::new);
  }

  // -- tables ---------------------------------------------------------------------------------

  @Override
  public Identifier[] listTables(String[] namespace) {
    try {
      Set<Identifier> found = new LinkedHashSet<>(Arrays.asList(tables.listTables(namespace)));
      found.addAll(Arrays.asList(ownTables(namespace)));
      return found.toArray(Identifier[]::new);
    } catch (NoSuchNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  private Identifier[] ownTables(String[] namespace) {
    String[] spelled = spelled(namespace);
    return ownsNamespace(spelled) ? super.listTables(spelled) : new Identifier[0];
  }

  @Override
  public Table loadTable(Identifier table) {
    return first(() -> super.loadTable(spelled(table)), () -> tables.loadTable(table), table);
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    return first(
        () -> super.loadTable(spelled(table), version),
        () -> tables.loadTable(table, version),
        table);
  }

  @Override
  public Table loadTable(Identifier table, long timestampMicros) {
    return first(
        () -> super.loadTable(spelled(table), timestampMicros),
        () -> tables.loadTable(table, timestampMicros),
        table);
  }

  @FunctionalInterface
  private interface Source {
    Table load() throws Exception;
  }

  /** Spark's catalog knows names of two parts only. */
  private static Table first(Source own, Source spark, Identifier table) {
    try {
      return own.load();
    } catch (NoSuchTableException error) {
      if (table.namespace().length != 1) {
        throw PythonBridge.raised(error);
      }
    } catch (Exception error) {
      throw PythonBridge.raised(error);
    }
    try {
      return spark.load();
    } catch (Exception error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public boolean tableExists(Identifier table) {
    return owns(spelled(table)) || (table.namespace().length == 1 && tables.tableExists(table));
  }

  @Override
  public void invalidateTable(Identifier table) {
    if (table.namespace().length == 1) {
      tables.invalidateTable(table);
    }
  }

  @Override
  @SuppressWarnings("deprecation")
  public Table createTable(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    try {
      if (!isIceberg(properties)) {
        return tables.createTable(table, columns, partitions, properties);
      }
      return super.createTable(inNamespace(table), columns, partitions, properties);
    } catch (Exception error) {
      throw PythonBridge.raised(error);
    }
  }

  private static boolean isIceberg(Map<String, String> properties) {
    String provider = properties.get(TableCatalog.PROP_PROVIDER);
    return provider == null || provider.equalsIgnoreCase("iceberg");
  }

  /** The name of a new table, whose namespace is there in Python's catalog from now on. */
  private Identifier inNamespace(Identifier table)
      throws NoSuchNamespaceException, TableAlreadyExistsException {
    Identifier spelled = spelled(table);
    String[] namespace = spelled.namespace();
    if (!namespaces.namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    if (tables.tableExists(spelled) && !owns(spelled)) {
      throw new TableAlreadyExistsException(spelled); // of Spark's catalog
    }
    if (!ownsNamespace(namespace)) {
      super.createNamespace(namespace, Map.of());
    }
    return spelled;
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    if (owns(spelled(table))) {
      return super.alterTable(spelled(table), changes);
    }
    try {
      return tables.alterTable(table, changes);
    } catch (NoSuchTableException error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public boolean dropTable(Identifier table) {
    return owns(spelled(table)) ? super.dropTable(spelled(table)) : tables.dropTable(table);
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return owns(spelled(table)) ? super.purgeTable(spelled(table)) : tables.purgeTable(table);
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    try {
      if (owns(spelled(from))) {
        super.renameTable(spelled(from), inNamespace(withoutCatalog(to)));
      } else if (owns(spelled(withoutCatalog(to)))) {
        throw new TableAlreadyExistsException(spelled(withoutCatalog(to)));
      } else {
        tables.renameTable(from, to);
      }
    } catch (NoSuchNamespaceException | NoSuchTableException | TableAlreadyExistsException error) {
      throw PythonBridge.raised(error);
    }
  }

  // -- tables that are created together with their rows -------------------------------------------

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return super.stageCreate(newIceberg(table, properties), columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return super.stageReplace(newIceberg(table, properties), columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return super.stageCreateOrReplace(
        newIceberg(table, properties), columns, partitions, properties);
  }

  /**
   * Spark makes tables of its own formats without asking here. What comes here is of a source that
   * has a connector, and Spark's catalog cannot make such a table in one step with its rows.
   */
  private Identifier newIceberg(Identifier table, Map<String, String> properties) {
    if (!isIceberg(properties)) {
      throw new UnsupportedOperationException(
          "CREATE or REPLACE TABLE "
              + table
              + " USING "
              + properties.get(TableCatalog.PROP_PROVIDER)
              + " AS SELECT: spark_catalog makes Iceberg tables and tables of Spark's formats this"
              + " way; create the table first, then INSERT");
    }
    try {
      return inNamespace(table);
    } catch (NoSuchNamespaceException | TableAlreadyExistsException error) {
      throw PythonBridge.raised(error);
    }
  }

  // -- namespaces -----------------------------------------------------------------------------

  @Override
  public String[][] listNamespaces() {
    try {
      return namespaces.listNamespaces();
    } catch (NoSuchNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public String[][] listNamespaces(String[] parent) {
    try {
      return namespaces.listNamespaces(parent);
    } catch (NoSuchNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public boolean namespaceExists(String[] namespace) {
    return namespaces.namespaceExists(namespace);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    try {
      return namespaces.loadNamespaceMetadata(namespace);
    } catch (NoSuchNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    try {
      namespaces.createNamespace(namespace, metadata);
    } catch (Exception error) {
      throw PythonBridge.raised(error);
    }
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    try {
      namespaces.alterNamespace(namespace, changes);
    } catch (NoSuchNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  /** Iceberg tables first, which Spark's catalog does not see unless both are one metastore. */
  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    Identifier[] own = ownTables(namespace);
    try {
      if (own.length > 0 && !cascade) {
        throw new NonEmptyNamespaceException(namespace);
      }
      Stream.of(own).forEach(super::dropTable);
      boolean dropped = namespaces.dropNamespace(namespace, cascade);
      if (ownsNamespace(spelled(namespace))) {
        super.dropNamespace(spelled(namespace), false);
      }
      return dropped;
    } catch (NoSuchNamespaceException | NonEmptyNamespaceException error) {
      throw PythonBridge.raised(error);
    }
  }

  // -- functions --------------------------------------------------------------------------------

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    return isSystem(namespace)
        ? super.listFunctions(namespace)
        : functions.listFunctions(namespace);
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    try {
      return super.loadFunction(function);
    } catch (NoSuchFunctionException error) {
      return functions.loadFunction(function);
    }
  }

  @Override
  public boolean functionExists(Identifier function) {
    try {
      return super.loadFunction(function) != null;
    } catch (NoSuchFunctionException error) {
      return functions.functionExists(function);
    }
  }
}
