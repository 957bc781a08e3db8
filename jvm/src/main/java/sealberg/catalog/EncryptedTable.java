package sealberg.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsDelete;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.SessionSettings;
import sealberg.read.FilterJson;
import sealberg.read.TableScanBuilder;
import sealberg.write.CopyOnWriteOperation;
import sealberg.write.InsertWrite;
import sealberg.write.MergeOnReadOperation;

/**
 * A table as Python described it when a query named it: its columns, its partitions, and the
 * snapshot to read.
 *
 * <pre>
 *   SELECT                  ──> TableScanBuilder
 *   INSERT                  ──> InsertWrite
 *   DELETE, UPDATE, MERGE   ──> CopyOnWriteOperation or MergeOnReadOperation, as the table says
 *   _file _pos _row_id _last_updated_sequence_number      columns that can be asked for
 * </pre>
 */
public class EncryptedTable
    implements SupportsRead,
        SupportsWrite,
        SupportsDelete,
        SupportsRowLevelOperations,
        SupportsMetadataColumns {
  private final String catalog;
  private final JsonNode described;
  private final StructType schema;

  EncryptedTable(String catalog, JsonNode described) {
    this.catalog = catalog;
    this.described = described;
    this.schema = (StructType) DataType.fromJson(described.get("schema").toString());
  }

  public String catalog() {
    return catalog;
  }

  /** What Python says of the table. */
  public JsonNode described() {
    return described;
  }

  /** What Python needs to find the table, the snapshot and the schema again. */
  public JsonNode handle() {
    return described.get("handle");
  }

  /** How the table is scanned, as options, session and properties say; only what they set. */
  public JsonNode scan() {
    return described.path("scan");
  }

  public JsonNode ask(String verb, ObjectNode arguments) {
    arguments.set("table", described.get("table"));
    arguments.set("handle", handle());
    if (!arguments.has("settings")) {
      arguments.set("settings", SessionSettings.current());
    }
    return PythonBridge.call(catalog, verb, arguments);
  }

  @Override
  public String name() {
    return catalog + "." + described.get("name").asText();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark makes columns() of it
  public StructType schema() {
    return schema;
  }

  @Override
  public Map<String, String> properties() {
    return PythonBridge.strings(described.get("properties"));
  }

  @Override
  public Transform[] partitioning() {
    JsonNode partitions = described.get("partitions");
    Transform[] transforms = new Transform[partitions.size()];
    for (int i = 0; i < transforms.length; i++) {
      transforms[i] = transform(partitions.get(i));
    }
    return transforms;
  }

  public static Transform transform(JsonNode one) {
    String column = one.get("column").asText();
    String kind = one.get("transform").asText();
    switch (kind) {
      case "identity":
        return Expressions.identity(column);
      case "bucket":
        return Expressions.bucket(one.get("width").asInt(), column);
      case "truncate":
        return Expressions.apply(
            "truncate", Expressions.literal(one.get("width").asInt()), Expressions.column(column));
      default:
        return Expressions.apply(
            kind, Expressions.column(column)); // years, months, days, hours, void
    }
  }

  @Override
  public Set<TableCapability> capabilities() {
    Set<TableCapability> capabilities =
        EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.MICRO_BATCH_READ,
            TableCapability.STREAMING_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC);
    if (described.path("evolves").asBoolean()) {
      capabilities.add(TableCapability.AUTOMATIC_SCHEMA_EVOLUTION);
    }
    if (described.path("accepts-any-schema").asBoolean()) {
      capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return capabilities;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return new TableScanBuilder(readBy(options, false), false, options);
  }

  /**
   * The rows of this table that options and session choose; Python refuses an option that it does
   * not know.
   */
  public EncryptedTable readBy(CaseInsensitiveStringMap options, boolean rowLevel) {
    ObjectNode settings = SessionSettings.current();
    if (options.isEmpty() && settings.isEmpty()) {
      return this;
    }
    ObjectNode arguments = PythonBridge.object().put("row-level", rowLevel);
    arguments.set("options", PythonBridge.strings(options.asCaseSensitiveMap()));
    arguments.set("settings", settings);
    JsonNode answer = ask("read-options", arguments);
    JsonNode chosen = answer.get("chosen");
    ObjectNode read = (chosen.isNull() ? described : chosen).deepCopy();
    read.set("scan", answer.get("scan"));
    return new EncryptedTable(catalog, read);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new InsertWrite.Builder(this, info);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    boolean rewrites = described.get("rewrites").get(named(info.command())).asBoolean();
    // A session with spark.wap.branch changes the rows of that branch, so the whole statement is
    // about it.
    EncryptedTable target = readBy(CaseInsensitiveStringMap.empty(), true);
    return () ->
        rewrites
            ? new CopyOnWriteOperation(target, info.command())
            : new MergeOnReadOperation(target, info.command());
  }

  public static String named(RowLevelOperation.Command command) {
    return command.toString().toLowerCase(Locale.ROOT);
  }

  @Override
  public boolean canDeleteWhere(Filter[] filters) {
    return FilterJson.understands(filters) && ask("can-delete", filtered(filters)).asBoolean();
  }

  @Override
  public void deleteWhere(Filter[] filters) {
    ask("delete", filtered(filters));
  }

  private static ObjectNode filtered(Filter[] filters) {
    ObjectNode arguments = PythonBridge.object();
    arguments.set("filters", FilterJson.described(filters));
    return arguments;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return MetadataColumns.all();
  }

  /** A table that is not there before its rows are: CTAS and RTAS. */
  static final class Staged extends EncryptedTable implements StagedTable {
    Staged(String catalog, JsonNode described) {
      super(catalog, described);
    }

    @Override
    public Map<String, String> properties() {
      return new LinkedHashMap<>(super.properties());
    }

    @Override
    public void commitStagedChanges() {
      ask("commit-staged", PythonBridge.object());
    }

    @Override
    public void abortStagedChanges() {
      ask("abort-staged", PythonBridge.object());
    }

    /** Newer Sparks would inherit two of these. */
    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return new CustomTaskMetric[0];
    }
  }
}
