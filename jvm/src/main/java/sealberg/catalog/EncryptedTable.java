package sealberg.catalog;

import java.util.Arrays;
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
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.Request;
import sealberg.bridge.SessionSettings;
import sealberg.bridge.TableMessages.AbortStagedTable;
import sealberg.bridge.TableMessages.CommitStagedTable;
import sealberg.bridge.TableMessages.ReadOptionsAnswer;
import sealberg.bridge.TableMessages.ResolveReadOptions;
import sealberg.bridge.TableMessages.RowLevelMode;
import sealberg.bridge.TableMessages.TableDescription;
import sealberg.bridge.TableMessages.TableHandle;
import sealberg.bridge.WriteMessages.CanDeleteWhere;
import sealberg.bridge.WriteMessages.DeleteWhere;
import sealberg.read.FilterJson;
import sealberg.read.TableScanBuilder;
import sealberg.write.CopyOnWriteOperation;
import sealberg.write.InsertWrite;
import sealberg.write.MergeOnReadOperation;

/**
 * A table as Python described it when the query was analysed: its columns, its partitions, and the
 * snapshot to read.
 *
 * <pre>
 *   SELECT                  ──> TableScanBuilder
 *   INSERT                  ──> InsertWrite
 *   DELETE, UPDATE, MERGE   ──> CopyOnWriteOperation or MergeOnReadOperation, by the table's properties
 *   _file _pos _row_id _last_updated_sequence_number      metadata columns
 *   _spec_id _partition _deleted
 * </pre>
 */
public class EncryptedTable
    implements SupportsRead,
        SupportsWrite,
        SupportsDelete,
        SupportsRowLevelOperations,
        SupportsMetadataColumns {
  /** Null on Spark 4.0, which adds no columns during a MERGE. */
  private static final TableCapability SCHEMA_EVOLUTION =
      Arrays.stream(TableCapability.values())
          .filter(known -> known.name().equals("AUTOMATIC_SCHEMA_EVOLUTION"))
          .findFirst()
          .orElse(null);

  private final String catalog;
  private final TableDescription description;

  EncryptedTable(String catalog, TableDescription description) {
    this.catalog = catalog;
    this.description = description;
  }

  public String catalog() {
    return catalog;
  }

  public TableDescription description() {
    return description;
  }

  public TableHandle handle() {
    return description.handle();
  }

  public <A> A ask(Request<A> request) {
    return PythonBridge.call(catalog, request);
  }

  @Override
  public String name() {
    return catalog + "." + description.name();
  }

  /**
   * By this Spark sees that a table was dropped and made anew: a cached table and a DataFrame of
   * the dropped table are then not taken for the new one. Spark 4.0 has no such method.
   */
  public String id() {
    return handle().uuid();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark derives columns() from it
  public StructType schema() {
    return description.schema();
  }

  @Override
  public Map<String, String> properties() {
    return new LinkedHashMap<>(description.properties());
  }

  @Override
  public Transform[] partitioning() {
    return description.partitions().stream()
        .map(field -> transform(field.transform(), field.width(), field.column()))
        .toArray(Transform[]::new);
  }

  public static Transform transform(String name, int width, String column) {
    return switch (name) {
      case "identity" -> Expressions.identity(column);
      case "bucket" -> Expressions.bucket(width, column);
      case "truncate" ->
          Expressions.apply(name, Expressions.literal(width), Expressions.column(column));
      default ->
          Expressions.apply(name, Expressions.column(column)); // years, months, days, hours, void
    };
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
    if (description.evolvesSchema() && SCHEMA_EVOLUTION != null) {
      capabilities.add(SCHEMA_EVOLUTION);
    }
    if (description.acceptsAnySchema()) {
      capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA);
    }
    return capabilities;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    CaseInsensitiveStringMap options = withoutName(given);
    return new TableScanBuilder(readBy(options, false), false, options);
  }

  /** The options without a path that only repeats the name of this table. */
  public CaseInsensitiveStringMap withoutName(CaseInsensitiveStringMap options) {
    return CatalogName.withoutName(options, catalog, description.name()::equals);
  }

  /**
   * This table at the snapshot that the options and the session select; Python refuses unknown
   * options.
   */
  public EncryptedTable readBy(CaseInsensitiveStringMap options, boolean rowLevel) {
    Map<String, String> settings = SessionSettings.current();
    // No scan options: a property of the table cannot be read, and Python says which.
    if (options.isEmpty() && settings.isEmpty() && description.scanOptions() != null) {
      return this;
    }
    ReadOptionsAnswer answer =
        ask(new ResolveReadOptions(handle(), options.asCaseSensitiveMap(), settings, rowLevel));
    TableDescription chosen = answer.chosen() == null ? description : answer.chosen();
    return new EncryptedTable(catalog, chosen.withScanOptions(answer.scanOptions()));
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new InsertWrite.Builder(this, info);
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    RowLevelMode mode = mode(info.command());
    // In a session with spark.wap.branch the whole statement reads and writes that branch.
    EncryptedTable target = readBy(CaseInsensitiveStringMap.empty(), true);
    return () ->
        mode == RowLevelMode.COPY_ON_WRITE
            ? new CopyOnWriteOperation(target, info.command())
            : new MergeOnReadOperation(target, info.command());
  }

  private RowLevelMode mode(RowLevelOperation.Command command) {
    RowLevelMode mode =
        switch (command) {
          case DELETE -> description.rowLevelModes().delete();
          case UPDATE -> description.rowLevelModes().update();
          case MERGE -> description.rowLevelModes().merge();
        };
    if (mode == null) {
      String name = "write." + named(command) + ".mode";
      throw new IllegalArgumentException(
          description.name()
              + ": "
              + name
              + " is copy-on-write or merge-on-read, not "
              + description.properties().get(name));
    }
    return mode;
  }

  public static String named(RowLevelOperation.Command command) {
    return command.toString().toLowerCase(Locale.ROOT);
  }

  @Override
  public boolean canDeleteWhere(Filter[] filters) {
    return FilterJson.understands(filters)
        && ask(
            new CanDeleteWhere(handle(), FilterJson.messages(filters), SessionSettings.current()));
  }

  @Override
  public void deleteWhere(Filter[] filters) {
    ask(new DeleteWhere(handle(), FilterJson.messages(filters), SessionSettings.current()));
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    return MetadataColumns.all(description.partitionType());
  }

  /** A table that one commit creates together with its rows: CTAS and RTAS. */
  static final class Staged extends EncryptedTable implements StagedTable {
    Staged(String catalog, TableDescription description) {
      super(catalog, description);
    }

    @Override
    public Map<String, String> properties() {
      return new LinkedHashMap<>(super.properties());
    }

    @Override
    public void commitStagedChanges() {
      ask(new CommitStagedTable(handle()));
    }

    @Override
    public void abortStagedChanges() {
      ask(new AbortStagedTable(handle()));
    }

    /** Newer versions of Spark would otherwise inherit two implementations. */
    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
      return new CustomTaskMetric[0];
    }
  }
}
