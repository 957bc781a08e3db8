package sealberg.bridge;

import java.util.List;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.bridge.TableMessages.TableHandle;

/**
 * Plans of batch reads, estimates for the optimiser, and aggregates out of metadata. Python's
 * {@code scans}.
 */
public final class ScanMessages {
  private ScanMessages() {}

  /** What the Python worker does for a file: read it, or find its deleted rows. */
  public enum WorkerVerb {
    READ_FILE,
    FIND_DELETED;

    /** As the worker knows it. */
    public String text() {
      return this == READ_FILE ? "read-file" : "find-deleted";
    }
  }

  public enum AggregateFunction {
    COUNT_ALL,
    COUNT,
    MIN,
    MAX
  }

  /**
   * A data file to read.
   *
   * @param recordCount of the whole file, deleted rows included
   * @param key null for a file that is not encrypted, or that the Python worker reads
   * @param deletedPositions a serialized bitmap; null where no row is deleted
   * @param workerPayload for the Python worker, which alone understands it
   */
  public record PlannedFile(
      String location,
      long fileLength,
      long recordCount,
      @Nullable Long firstRowId,
      @Nullable Long sequenceNumber,
      @Nullable byte[] key,
      @Nullable byte[] aadPrefix,
      @Nullable byte[] deletedPositions,
      @Nullable WorkerVerb workerVerb,
      @Nullable byte[] workerPayload)
      implements Message {
    @Override
    public String toString() {
      return location; // and not the key
    }
  }

  /**
   * The files of a scan.
   *
   * @param python the program that executors start as the Python worker
   * @param storage null for a table without snapshots
   * @param tablePayload for the Python worker; null where no file has a worker verb
   */
  public record ScanPlan(
      String python,
      @Columns List<PlannedFile> files,
      @Nullable StorageSettings storage,
      @Nullable byte[] tablePayload)
      implements Message {
    @Override
    public String toString() {
      return files.size() + " files";
    }
  }

  /** The files that a query reads; {@code columns} are those that Spark asks for. */
  public record ScanRequest(TableHandle handle, StructType columns, List<FilterMessage> filters)
      implements Request.OfRead<ScanPlan> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /**
   * Statistics of a column; null where they are not known.
   *
   * @param lower the smallest value as text: numbers, true and false, days and microseconds since
   *     1970
   * @param upper the largest value
   */
  public record ColumnEstimate(
      String name,
      @Nullable Long distinctCount,
      @Nullable Long nullCount,
      @Nullable String lower,
      @Nullable String upper)
      implements Message {
    @Override
    public String toString() {
      return name; // and not values
    }
  }

  /**
   * What a scan will read; null where nothing is known of the files.
   *
   * @param sizeInBytes of the whole files, all columns
   */
  public record ScanEstimate(
      List<ColumnEstimate> columns, @Nullable Long recordCount, @Nullable Long sizeInBytes)
      implements Message {}

  /** Statistics of a scan, for Spark's cost-based optimiser. */
  public record EstimateRequest(TableHandle handle, StructType columns, List<FilterMessage> filters)
      implements Request.OfRead<ScanEstimate> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /** {@code column} is null for count(*). */
  public record Aggregate(AggregateFunction function, @Nullable String column) implements Message {}

  /** Null where the metadata do not tell all of the values. Decimals are texts. */
  public record AggregateAnswer(@Nullable List<Object> values) implements Message {}

  public record AggregateRequest(TableHandle handle, List<Aggregate> aggregates)
      implements Request.OfRead<AggregateAnswer> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
