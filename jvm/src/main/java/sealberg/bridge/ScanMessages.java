package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.bridge.TableMessages.PlanningMode;
import sealberg.bridge.TableMessages.TableHandle;

/**
 * Plans of batch reads, estimates for the optimiser, and aggregates out of metadata. Python's
 * {@code scans}.
 */
public final class ScanMessages {
  private ScanMessages() {}

  /**
   * What the Python worker does: read a file or a part of it, find the deleted rows of a part, or
   * read a metadata table.
   */
  public enum WorkerVerb {
    READ_FILE,
    READ_PART,
    FIND_DELETED,
    READ_METADATA;

    /** As the worker knows it. */
    public String text() {
      return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Whether the worker returns rows. */
    public boolean readsRows() {
      return this != FIND_DELETED;
    }

    /** Whether several tasks may work on a file, each on a part. */
    public boolean takesPart() {
      return this == READ_PART || this == FIND_DELETED;
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
   * @param specId for _spec_id
   * @param partition the values of _partition, as Python's {@code arrow_json} has them; null if the
   *     query does not ask for that column
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
      @Nullable byte[] workerPayload,
      @Nullable Integer specId,
      @Nullable List<JsonNode> partition)
      implements Message {
    @Override
    public String toString() {
      return location; // and not the key
    }
  }

  /** The files of a scan, or tasks that find them. */
  public sealed interface PlanStep extends Message {}

  /**
   * The files of a scan.
   *
   * @param python the program that executors start as the Python worker
   * @param storage null for a table without snapshots
   * @param tablePayload for the Python worker; null where no file has a worker verb
   * @param planningTasks how many tasks have read manifests; null where the driver has
   */
  @Message.Tag("plan")
  public record ScanPlan(
      String python,
      @Columns List<PlannedFile> files,
      @Nullable StorageSettings storage,
      @Nullable byte[] tablePayload,
      @Nullable Integer planningTasks)
      implements PlanStep {
    /** The same plan with these files before its own. */
    public ScanPlan after(List<PlannedFile> before) {
      List<PlannedFile> all = new ArrayList<>(before);
      all.addAll(files);
      return new ScanPlan(python, all, storage, tablePayload, planningTasks);
    }

    @Override
    public String toString() {
      return files.size() + " files";
    }
  }

  /**
   * Manifests for the tasks of Spark.
   *
   * @param python the program that executors start as the Python worker
   * @param tasks hold the keys of their own manifests
   */
  @Message.Tag("tasks")
  public record PlanTasks(String call, String description, String python, List<byte[]> tasks)
      implements PlanStep {
    @Override
    public String toString() {
      return "PlanTasks[" + description + "]"; // and not the tasks
    }
  }

  /** Some files of a plan that has very many; the others follow. */
  @Message.Tag("files")
  public record PlanFiles(String call, @Columns List<PlannedFile> files) implements PlanStep {
    @Override
    public String toString() {
      return files.size() + " files";
    }
  }

  /**
   * Who may plan a scan.
   *
   * @param call the id of the plan, for CancelPlan
   * @param slots tasks that Spark runs at a time
   * @param parallelism the same as Iceberg's connector counts it
   * @param mostResultBytes 0 is no bound
   */
  public record Planning(
      String call,
      int slots,
      int parallelism,
      long mostResultBytes,
      @Nullable PlanningMode dataMode,
      @Nullable PlanningMode deleteMode)
      implements Message {}

  /** The files that a query reads; {@code columns} are those that Spark asks for. */
  public record ScanRequest(
      TableHandle handle, StructType columns, List<FilterMessage> filters, Planning planning)
      implements Request.OfRead<PlanStep> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /**
   * The results of the tasks, in the order of the tasks; none after PlanFiles. It is no OfRead: who
   * gave it up would leave a plan that waits.
   */
  public record ContinuePlan(String call, List<byte[]> results) implements Request<PlanStep> {
    @Override
    public String toString() {
      return "ContinuePlan[" + call + "]"; // and not the results
    }
  }

  /** The Spark job of a plan has failed or was cancelled, or nobody waits for the plan. */
  public record CancelPlan(String call) implements Request<Void> {}

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
