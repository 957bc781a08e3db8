package sealberg.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.SessionSettings;

/**
 * A catalog of Spark SQL whose every answer comes from Python.
 *
 * <pre>
 *   CREATE, DROP, RENAME, ALTER, SHOW, DESCRIBE  ──>  one verb each
 *   CTAS, RTAS                                   ──>  staged: rows are written first, then one commit makes the table
 *   bucket, truncate, years, ...                 ──>  functions, so that Spark can cluster rows by partition
 * </pre>
 */
public class EncryptedCatalog implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog {
  private String name;
  private String[] defaultNamespace = new String[0];

  /** Python has read the other options when it was installed. */
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

  private JsonNode ask(String verb, ObjectNode arguments) {
    return PythonBridge.call(name, verb, arguments);
  }

  // -- tables ---------------------------------------------------------------------------------

  @Override
  public Identifier[] listTables(String[] namespace) {
    String[] found = PythonBridge.texts(ask("list-tables", within(namespace)));
    Identifier[] tables = new Identifier[found.length];
    for (int i = 0; i < found.length; i++) {
      tables[i] = Identifier.of(namespace, found[i]);
    }
    return tables;
  }

  @Override
  public Table loadTable(Identifier table) {
    return opened(ask("load", named(table)));
  }

  @Override
  public Table loadTable(Identifier table, String version) {
    return opened(ask("load", named(table).put("version", version)));
  }

  @Override
  public Table loadTable(Identifier table, long timestampMicros) {
    return opened(ask("load", named(table).put("timestamp", timestampMicros)));
  }

  private Table opened(JsonNode described) {
    return described.has("rows-of")
        ? new MetadataTable(described)
        : new EncryptedTable(name, described);
  }

  // The overloads that Spark calls deprecated exist in every Spark from 4.1 on; those that replace
  // them call these by default.
  @Override
  @SuppressWarnings("deprecation")
  public Table createTable(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return opened(ask("create", definition(table, columns, partitions, properties)));
  }

  @Override
  public Table alterTable(Identifier table, TableChange... changes) {
    ArrayNode list = PythonBridge.JSON.createArrayNode();
    for (TableChange change : changes) {
      list.add(TableChangeJson.described(change));
    }
    ObjectNode arguments = of(table);
    arguments.set("changes", list);
    return opened(ask("alter", arguments));
  }

  @Override
  public boolean dropTable(Identifier table) {
    return ask("drop", of(table).put("purge", false)).asBoolean();
  }

  @Override
  public boolean purgeTable(Identifier table) {
    return ask("drop", of(table).put("purge", true)).asBoolean();
  }

  @Override
  public void renameTable(Identifier from, Identifier to) {
    ObjectNode arguments = of(from);
    arguments.set("to", PythonBridge.names(withoutCatalog(to)));
    ask("rename", arguments);
  }

  /** Spark leaves the catalog in the new name, if it was written there. */
  private Identifier withoutCatalog(Identifier table) {
    String[] namespace = table.namespace();
    boolean named = namespace.length > 1 && namespace[0].equals(name);
    return named
        ? Identifier.of(Arrays.copyOfRange(namespace, 1, namespace.length), table.name())
        : table;
  }

  // -- tables that are made together with their rows ----------------------------------------------

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreate(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged("create", table, columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged("replace", table, columns, partitions, properties);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StagedTable stageCreateOrReplace(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    return staged("create-or-replace", table, columns, partitions, properties);
  }

  private StagedTable staged(
      String how,
      Identifier table,
      Column[] columns,
      Transform[] partitions,
      Map<String, String> properties) {
    ObjectNode arguments = definition(table, columns, partitions, properties).put("how", how);
    return new EncryptedTable.Staged(name, ask("stage", arguments));
  }

  private static ObjectNode definition(
      Identifier table, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    ObjectNode arguments = of(table);
    arguments.set(
        "schema", PythonBridge.parsed(CatalogV2Util.v2ColumnsToStructType(columns).json()));
    arguments.set("properties", PythonBridge.strings(properties));
    ArrayNode transforms = arguments.putArray("partitions");
    for (Transform partition : partitions) {
      transforms.add(described(partition));
    }
    return arguments;
  }

  private static ObjectNode described(Transform partition) {
    ObjectNode transform = PythonBridge.object().put("transform", partition.name());
    for (Expression argument : partition.arguments()) {
      if (argument instanceof NamedReference column) {
        transform.set("column", PythonBridge.names(column.fieldNames()));
      } else if (argument instanceof Literal<?> literal) {
        transform.put("width", String.valueOf(literal.value()));
      }
    }
    return transform;
  }

  // -- namespaces -----------------------------------------------------------------------------

  @Override
  public String[][] listNamespaces() {
    return listNamespaces(new String[0]);
  }

  @Override
  public String[][] listNamespaces(String[] parent) {
    JsonNode found = ask("list-namespaces", within(parent));
    String[][] namespaces = new String[found.size()][];
    for (int i = 0; i < namespaces.length; i++) {
      namespaces[i] = PythonBridge.texts(found.get(i));
    }
    return namespaces;
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(String[] namespace) {
    return PythonBridge.strings(ask("load-namespace", within(namespace)));
  }

  @Override
  public void createNamespace(String[] namespace, Map<String, String> metadata) {
    ObjectNode arguments = within(namespace);
    arguments.set("properties", PythonBridge.strings(metadata));
    ask("create-namespace", arguments);
  }

  @Override
  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    ObjectNode arguments = within(namespace);
    ObjectNode set = arguments.putObject("set");
    ArrayNode removed = arguments.putArray("remove");
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty one) {
        set.put(one.property(), one.value());
      } else if (change instanceof NamespaceChange.RemoveProperty one) {
        removed.add(one.property());
      }
    }
    ask("alter-namespace", arguments);
  }

  @Override
  public boolean dropNamespace(String[] namespace, boolean cascade) {
    return ask("drop-namespace", within(namespace).put("cascade", cascade)).asBoolean();
  }

  // -- functions --------------------------------------------------------------------------------

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return hasFunctions(namespace) ? PartitionTransforms.identifiers(namespace) : new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
    UnboundFunction found =
        hasFunctions(function.namespace()) ? PartitionTransforms.function(function.name()) : null;
    if (found == null) {
      throw new NoSuchFunctionException(function);
    }
    return found;
  }

  /** As in Java, prod.system.bucket(...) is prod.bucket(...). */
  private static boolean hasFunctions(String[] namespace) {
    return namespace.length == 0
        || (namespace.length == 1 && namespace[0].equalsIgnoreCase("system"));
  }

  // -- arguments ------------------------------------------------------------------------------

  /**
   * With the options of this catalog as the session has them now: Python says if they have changed.
   */
  private ObjectNode named(Identifier table) {
    ObjectNode arguments = of(table);
    arguments.set("options", SessionSettings.ofCatalog(name));
    return arguments;
  }

  private static ObjectNode of(Identifier table) {
    ObjectNode arguments = PythonBridge.object();
    arguments.set("settings", SessionSettings.current());
    arguments.set("table", PythonBridge.names(table));
    return arguments;
  }

  private static ObjectNode within(String[] namespace) {
    ObjectNode arguments = PythonBridge.object();
    arguments.set("namespace", PythonBridge.names(namespace));
    return arguments;
  }
}
