package sealberg.bridge;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.TableChangeMessages.TableChangeMessage;

/**
 * Descriptions of tables, read options, and the statements that make, change and drop tables.
 * Python's {@code tables}.
 */
public final class TableMessages {
  private TableMessages() {}

  /** Whether a DELETE, UPDATE or MERGE writes files anew or marks rows in deletion vectors. */
  public enum RowLevelMode {
    COPY_ON_WRITE,
    MERGE_ON_READ
  }

  /** What AS SELECT does. */
  public enum StageMode {
    CREATE,
    REPLACE,
    CREATE_OR_REPLACE
  }

  /**
   * A table as a query has named it: the table, the snapshot and the schema that later requests
   * find again.
   *
   * @param past whether the query reads a snapshot, a tag or a point in time
   * @param staged the number of a table that is being created or replaced, AS SELECT
   * @param branch null for main
   * @param afterSnapshotId only rows that were appended after this snapshot are read
   */
  public record TableHandle(
      List<String> table,
      String uuid,
      int schemaId,
      boolean past,
      @Nullable Long snapshotId,
      @Nullable String metadataLocation,
      @Nullable String staged,
      @Nullable String branch,
      @Nullable Long afterSnapshotId)
      implements Message, Serializable {}

  /** A partition field; {@code column} is quoted as Spark parses it. */
  public record TransformField(String transform, int width, String column) implements Message {}

  /** Who reads the manifests of a scan. */
  public enum PlanningMode {
    AUTO,
    LOCAL,
    DISTRIBUTED
  }

  /**
   * How a scan is planned and split into tasks; null where neither option, session nor table says
   * anything.
   */
  public record ScanOptions(
      @Nullable Long splitSize,
      @Nullable Long fileOpenCost,
      @Nullable Integer parallelism,
      @Nullable Boolean adaptive,
      @Nullable Boolean vectorized,
      @Nullable Boolean aggregates,
      @Nullable Boolean locality,
      @Nullable Boolean columnStatistics,
      @Nullable PlanningMode dataPlanning,
      @Nullable PlanningMode deletePlanning)
      implements Message {}

  /** Null where the property of the table cannot be read. */
  public record RowLevelModes(
      @Nullable RowLevelMode delete, @Nullable RowLevelMode update, @Nullable RowLevelMode merge)
      implements Message {}

  /** What a name stands for. */
  public sealed interface LoadedTable extends Message {}

  /**
   * All that Java needs to know of a table at a snapshot.
   *
   * @param readSchema with the types, ids and defaults by which files are read
   * @param partitionType of _partition: the fields of all partition specs
   * @param scanOptions null if a property of the table cannot be read
   * @param filterableColumns columns for which Parquet's own filters may be used
   */
  @Message.Tag("table")
  public record TableDescription(
      TableHandle handle,
      String name,
      StructType schema,
      StructType readSchema,
      List<TransformField> partitions,
      StructType partitionType,
      Map<String, String> properties,
      long recordCount,
      long sizeInBytes,
      List<String> filterableColumns,
      @Nullable ScanOptions scanOptions,
      boolean acceptsAnySchema,
      boolean evolvesSchema,
      RowLevelModes rowLevelModes)
      implements LoadedTable {

    public TableDescription withScanOptions(ScanOptions other) {
      return new TableDescription(
          handle,
          name,
          schema,
          readSchema,
          partitions,
          partitionType,
          properties,
          recordCount,
          sizeInBytes,
          filterableColumns,
          other,
          acceptsAnySchema,
          evolvesSchema,
          rowLevelModes);
    }
  }

  /**
   * A metadata table at a snapshot.
   *
   * @param kind files, snapshots ...
   * @param name as the query has named it
   * @param partitionColumns by which the rows are partitioned, quoted as Spark parses them
   */
  @Message.Tag("metadata-table")
  public record MetadataTableDescription(
      TableHandle handle,
      String kind,
      String name,
      StructType schema,
      List<String> partitionColumns)
      implements LoadedTable {}

  /**
   * A statement names a table.
   *
   * @param settings of the session: spark.wap.* and spark.sql.iceberg.*
   */
  public record LoadTable(
      List<String> table,
      Map<String, String> settings,
      @Nullable String version,
      @Nullable Long timestampUs)
      implements Request.OfRead<LoadedTable> {}

  /** One expression of PARTITIONED BY. */
  public record PartitionTransform(String transform, List<String> column, @Nullable String width)
      implements Message {}

  /** The columns, partitions and properties of CREATE and REPLACE TABLE. */
  public record TableDefinition(
      List<String> table,
      StructType schema,
      List<PartitionTransform> partitions,
      Map<String, String> properties)
      implements Message {}

  public record CreateTable(TableDefinition definition) implements Request<LoadedTable> {
    @Override
    public List<String> table() {
      return definition.table();
    }
  }

  public record AlterTable(List<String> table, List<TableChangeMessage> changes)
      implements Request<LoadedTable> {}

  /** The answer says whether there was such a table. */
  public record DropTable(List<String> table, boolean purge) implements Request<Boolean> {}

  public record RenameTable(List<String> table, List<String> to) implements Request<Void> {
    @Override
    public List<String> newTable() {
      return to;
    }
  }

  /** CREATE or REPLACE TABLE AS SELECT: the table appears together with its rows. */
  public record StageTable(StageMode mode, TableDefinition definition)
      implements Request<TableDescription> {
    @Override
    public List<String> table() {
      return definition.table();
    }
  }

  public record CommitStagedTable(TableHandle handle) implements Request<Void> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  public record AbortStagedTable(TableHandle handle) implements Request<Void> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /** {@code chosen} is the snapshot or branch that the options choose. */
  public record ReadOptionsAnswer(ScanOptions scanOptions, @Nullable TableDescription chosen)
      implements Message {}

  /** What the options of a read and the settings of the session choose of a table. */
  public record ResolveReadOptions(
      TableHandle handle,
      Map<String, String> options,
      Map<String, String> settings,
      boolean rowLevel)
      implements Request.OfRead<ReadOptionsAnswer> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
