package sealberg.read;

import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.MetadataTableMessages.MetadataPlan;
import sealberg.bridge.MetadataTableMessages.MetadataScanRequest;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.TableMessages.MetadataTableDescription;
import sealberg.bridge.TableMessages.TableHandle;
import sealberg.catalog.JsonRows;
import sealberg.storage.TableStorage;

/**
 * A read of a metadata table.
 *
 * <pre>
 *   few rows    Python has sent them; no task
 *   many rows   a task for some manifests or delete files; a Python worker beside it reads them
 * </pre>
 *
 * Whole columns are pruned, fields of structs are not.
 */
public final class MetadataScanBuilder implements SupportsPushDownRequiredColumns {
  private final String catalog;
  private final TableHandle handle;
  private final MetadataTableDescription table;
  private StructType required;

  public MetadataScanBuilder(String catalog, TableHandle handle, MetadataTableDescription table) {
    this.catalog = catalog;
    this.handle = handle;
    this.table = table;
    this.required = table.schema();
  }

  @Override
  public void pruneColumns(StructType asked) {
    Set<String> names = Set.of(asked.fieldNames());
    required =
        new StructType(
            Arrays.stream(table.schema().fields())
                .filter(field -> names.contains(field.name()))
                .toArray(StructField[]::new));
  }

  @Override
  public Scan build() {
    MetadataPlan answer =
        PythonBridge.call(catalog, new MetadataScanRequest(handle, table.kind(), required));
    return answer.rows() != null
        ? JsonRows.scan(required, answer.rows())
        : new TaskScan(catalog + "." + table.name(), required, splits(answer.plan()));
  }

  private FileSplit[] splits(ScanPlan plan) {
    TableStorage storage = TableStorage.of(catalog, handle, plan.storage(), SparkSession.active());
    return plan.files().stream()
        .map(piece -> FileSplit.of(piece, plan, storage, required))
        .toArray(FileSplit[]::new);
  }

  private record TaskScan(String name, StructType required, FileSplit[] splits)
      implements Scan, Batch {
    @Override
    public StructType readSchema() {
      return required;
    }

    @Override
    public String description() {
      return "sealberg " + name;
    }

    @Override
    public Batch toBatch() {
      return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
      return Arrays.stream(splits)
          .map(split -> new ScanTask(new FileSplit[] {split}, new String[0]))
          .toArray(InputPartition[]::new);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return ReaderFactory.ofWorkers(required);
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
      return ColumnarSupportMode.SUPPORTED;
    }

    /** Does not show the keys. */
    @Override
    public String toString() {
      return description();
    }
  }
}
