package sealberg.catalog;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.NamespaceMessages.AlterNamespace;
import sealberg.bridge.NamespaceMessages.CreateNamespace;
import sealberg.bridge.NamespaceMessages.DropNamespace;
import sealberg.bridge.NamespaceMessages.ListNamespaces;
import sealberg.bridge.NamespaceMessages.ListTables;
import sealberg.bridge.NamespaceMessages.LoadNamespace;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.Request;
import sealberg.bridge.SessionSettings;
import sealberg.bridge.TableMessages.AlterTable;
import sealberg.bridge.TableMessages.CreateTable;
import sealberg.bridge.TableMessages.DropTable;
import sealberg.bridge.TableMessages.LoadTable;
import sealberg.bridge.TableMessages.LoadedTable;
import sealberg.bridge.TableMessages.MetadataTableDescription;
import sealberg.bridge.TableMessages.PartitionTransform;
import sealberg.bridge.TableMessages.RenameTable;
import sealberg.bridge.TableMessages.StageMode;
import sealberg.bridge.TableMessages.StageTable;
import sealberg.bridge.TableMessages.TableDefinition;
import sealberg.bridge.TableMessages.TableDescription;
import sealberg.procedure.Procedures;

/**
 * A catalog of Spark SQL. Python answers every request.
 *
 * <pre>
 *   CREATE, DROP, RENAME, ALTER, SHOW, DESCRIBE  ──>  one request each
 *   CTAS, RTAS                                   ──>  staged: the rows are written first, then one commit creates the table
 *   bucket, truncate, years, ...                 ──>  functions, so that Spark can cluster rows by partition
 *   CALL system.rollback_to_snapshot(...), ...   ──>  procedures
 * </pre>
 */
public class EncryptedCatalog
    implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog, ProcedureCatalog {
  private String name;
  private String[] defaultNamespace = new String[0];

  /** Python takes the other options from the application's start, and never from a session. */
  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    if (options.containsKey("default-namespace")) {
      defaultNamespace = options.get("default-namespace").split("\\.");
    }
  }

  @Override
  public String[] defaultNamespace() {
    return defaultNamespace;
  }

  @Override
  public String name() {
    return name;
  }

  private <A> A ask(Request<A> request) {
    return PythonBridge.call(name, request);
  }

  // -- tables ---------------------------------------------------------------------------------

  @Override
  public Identifier[] listTables(String[] namespace) {
    return ask(new ListTables(List.of(namespace))).stream()
        .map(table -> Identifier.of(namespace, table))
        .toArray(Identifier[]::new);
  }

  @Override
  public Table loadTable(Identifier table) {
    return load(table, null, null);
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    return load(table, version, null);
  }

  @Override
  public Table loadTable(Identifier table, long timestampMicros) {
    return load(table, null, timestampMicros);
  }

  @Override
  public boolean tableExists(Identifier table) {
    return owns(table);
  }

  /**
   * Whether Python's catalog has the table. A table that cannot be loaded is there, too: DROP TABLE
   * without PURGE takes it away.
   */
  final boolean owns(Identifier table) {
    try {
      return load(table, null, null) != null;
    } catch (Exception error) { // errors of analysis are no RuntimeExceptions
      if (error instanceof NoSuchTableException) {
        return false;
      }
      for (String known : ask(new ListTables(List.of(table.namespace())))) {
        if (known.equals(table.name())) {
          return true;
        }
      }
      throw error;
    }
  }

  /** Whether Python's catalog has the namespace. */
  final boolean ownsNamespace(String[] namespace) {
    try {
      return ask(new LoadNamespace(List.of(namespace))) != null;
    } catch (Exception error) {
      if (error instanceof NoSuchNamespaceException) {
        return false;
      }
      throw error;
    }
  }

  /** Whether a statement of Iceberg's DDL on this table is for this catalog. */
  public boolean answersFor(Identifier table) {
    return true;
  }

  /** The name as this catalog keeps it. */
  public Identifier spelled(Identifier table) {
    return table;
  }

  private Table load(Identifier table, String version, Long timestampMicros) {
    return opened(
        ask(new LoadTable(names(table), SessionSettings.current(), version, timestampMicros)));
  }

  private Table opened(LoadedTable loaded) {
    return loaded instanceof MetadataTableDescription metadata
        ? new MetadataTable(name, metadata)
        : new EncryptedTable(name, (TableDescription) loaded);
  }

  // The deprecated overloads exist in every Spark since 4.0; by default the new overloads call
  // them.
  @Override
  @SuppressWarnings("deprecation")
  public Table createTable(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return opened(ask(new CreateTable(definition(table, columns, partitions, properties))));
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    return opened(
        ask(
            new AlterTable(
                names(table), Arrays.stream(changes).map(TableChangeJson::message).toList())));
  }

  @Override
  public boolean dropTable(Identifier table) {
    return ask(new DropTable(names(table), false));
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return ask(new DropTable(names(table), true));
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    ask(new RenameTable(names(from), names(withoutCatalog(to))));
  }

  /** If the new name was written with the catalog, Spark passes the catalog too. */
  final Identifier withoutCatalog(Identifier table) {
    String[] namespace = table.namespace();
    boolean named = namespace.length > 1 && namespace[0].equals(name);
    return named
        ? Identifier.of(Arrays.copyOfRange(namespace, 1, namespace.length), table.name())
        : table;
  }

  // -- tables that are created together with their rows -------------------------------------------

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(StageMode.CREATE, table, columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(StageMode.REPLACE, table, columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged(StageMode.CREATE_OR_REPLACE, table, columns, partitions, properties);
  }

  private StagedTable staged(
      StageMode mode,
      Identifier table,
      Column[] columns,
      Transform[] partitions,
      Map<String, String> properties) {
    TableDefinition definition = definition(table, columns, partitions, properties);
    return new EncryptedTable.Staged(name, ask(new StageTable(mode, definition)));
  }

  private static TableDefinition definition(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    List<PartitionTransform> transforms =
        Arrays.stream(partitions).map(EncryptedCatalog::message).toList();
    return new TableDefinition(
        names(table),
        CatalogV2Util.v2ColumnsToStructType(columns),
        transforms,
        new LinkedHashMap<>(properties));
  }

  private static PartitionTransform message(Transform partition) {
    List<String> names = List.of();
    String width = null;
    for (Expression argument : partition.arguments()) {
      if (argument instanceof NamedReference column) {
        names = List.of(column.fieldNames());
      } else if (argument instanceof Literal<?> literal) {
        width = String.valueOf(literal.value());
      }
    }
    return new PartitionTransform(partition.name(), names, width);
  }

  // -- namespaces -----------------------------------------------------------------------------

  @Override
  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] parent) {
    return ask(new ListNamespaces(List.of(parent))).stream()
        .map(namespace -> namespace.toArray(new String[0]))
        .toArray(String[][]::new);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    return ask(new LoadNamespace(List.of(namespace)));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    ask(new CreateNamespace(List.of(namespace), metadata));
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    Map<String, String> updates = new LinkedHashMap<>();
    List<String> removals = new ArrayList<>();
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty update) {
        updates.put(update.property(), update.value());
      } else if (change instanceof NamespaceChange.RemoveProperty removal) {
        removals.add(removal.property());
      }
    }
    ask(new AlterNamespace(List.of(namespace), updates, removals));
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return ask(new DropNamespace(List.of(namespace), cascade));
  }

  // -- functions --------------------------------------------------------------------------------

  @Override
  public Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    if (hasFunctions(namespace)) {
      return Functions.identifiers(namespace);
    }
    if (!namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    UnboundFunction found =
        hasFunctions(function.namespace()) ? Functions.find(function.name()) : null;
    if (found == null) {
      throw new NoSuchFunctionException(function);
    }
    return found;
  }

  /** As in Iceberg Java, prod.system.bucket(...) is the same as prod.bucket(...). */
  private static boolean hasFunctions(String[] namespace) {
    return namespace.length == 0 || isSystem(namespace);
  }

  static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase("system");
  }

  // -- procedures -------------------------------------------------------------------------------

  /** For SHOW PROCEDURES, which Spark 4.0 has not: there it overrides nothing. */
  public Identifier[] listProcedures(String[] namespace) {
    return isSystem(namespace) ? new Procedures(this).identifiers(namespace) : new Identifier[0];
  }

  @Override
  public UnboundProcedure loadProcedure(Identifier procedure) {
    return new Procedures(this)
        .load(procedure, isSystem(procedure.namespace()), defaultNamespace());
  }

  private static List<String> names(Identifier table) {
    List<String> names = new ArrayList<>(List.of(table.namespace()));
    names.add(table.name());
    return names;
  }
}
