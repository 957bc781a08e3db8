package sealberg.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.ScanMessages.EstimateRequest;
import sealberg.bridge.ScanMessages.ScanEstimate;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.TableMessages.PlanningMode;
import sealberg.bridge.TableMessages.ScanOptions;
import sealberg.bridge.TableMessages.TableDescription;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;
import sealberg.storage.TableStorage;

/**
 * A read of a table: Python plans it, and Spark's own Parquet reader reads the files.
 *
 * <pre>
 *   Spark's filters ──> Python: which files, their keys, their deleted rows ──> tasks, each with its own files only
 * </pre>
 *
 * Spark evaluates every filter on the rows again: a pushed filter only skips files and row groups.
 * Planning begins when Spark asks for the first task.
 */
final class BatchScan implements Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering {
  private final EncryptedTable table;
  private final StructType required;
  private final Filter[] filters;
  private final boolean wholeFiles; // for a copy-on-write operation, which replaces the files
  private final CaseInsensitiveStringMap options;
  private List<FileSplit> files;
  private Integer planningTasks; // null if the driver has planned
  private ScanStatistics estimate;

  BatchScan(
      EncryptedTable table,
      StructType required,
      Filter[] filters,
      boolean wholeFiles,
      CaseInsensitiveStringMap options) {
    this.table = table;
    this.required = required;
    this.filters = filters;
    this.wholeFiles = wholeFiles;
    this.options = options;
  }

  @Override
  public StructType readSchema() {
    return required;
  }

  @Override
  public String description() {
    return "sealberg " + table.name() + " " + Arrays.toString(filters) + planned();
  }

  /** Who has planned the scan, or will: nothing if that is the driver, or not known yet. */
  private synchronized String planned() {
    if (files != null) {
      return planningTasks == null ? "" : " planned by " + planningTasks + " tasks";
    }
    return table.description().scanOptions().dataPlanning() == PlanningMode.DISTRIBUTED
        ? " planned by tasks"
        : "";
  }

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
    return new TableStream(table, this, options);
  }

  @Override
  public ColumnarSupportMode columnarSupportMode() {
    return vectorized() ? ColumnarSupportMode.SUPPORTED : ColumnarSupportMode.UNSUPPORTED;
  }

  private boolean vectorized() {
    return !Boolean.FALSE.equals(table.description().scanOptions().vectorized())
        && ReaderFactory.columnar(required, known());
  }

  /**
   * Rows and bytes of the snapshot; with spark.sql.cbo.enabled, of the files that the filters
   * leave, with statistics of columns.
   */
  @Override
  public synchronized Statistics estimateStatistics() {
    if (estimate == null) {
      estimate = estimated();
    }
    return estimate;
  }

  private ScanStatistics estimated() {
    TableDescription description = table.description();
    // The estimate assumes that the read columns compress like the whole table. Spark uses it to
    // choose broadcast joins.
    double share =
        Math.min(1.0, (double) (required.defaultSize() + 8) / (table.schema().defaultSize() + 8));
    ScanEstimate whole =
        new ScanEstimate(List.of(), description.recordCount(), description.sizeInBytes());
    boolean reports = !Boolean.FALSE.equals(description.scanOptions().columnStatistics());
    if (!reports || !SQLConf.get().cboEnabled()) {
      return ScanStatistics.of(whole, share, required);
    }
    EstimateRequest request =
        new EstimateRequest(table.handle(), required, FilterJson.messages(filters));
    ScanEstimate found = table.ask(request);
    return ScanStatistics.of(found.recordCount() == null ? whole : found, share, required);
  }

  // -- plan -------------------------------------------------------------------------------------

  synchronized List<FileSplit> files() {
    if (files == null) {
      ScanPlan plan = ScanPlanner.plan(table, required, filters);
      files = splits(plan);
      planningTasks = plan.planningTasks();
    }
    return files;
  }

  /** The files of a plan, with their keys. */
  List<FileSplit> splits(ScanPlan plan) {
    TableStorage storage = TableStorage.of(table, plan.storage(), SparkSession.active());
    return plan.files().stream().map(file -> FileSplit.of(file, plan, storage, required)).toList();
  }

  /**
   * Spark's runtime filter on _file for copy-on-write: keeps only files that have a row to change.
   */
  @Override
  public NamedReference[] filterAttributes() {
    return wholeFiles
        ? new NamedReference[] {Expressions.column(MetadataColumns.FILE)}
        : new NamedReference[0];
  }

  @Override
  public synchronized void filter(Predicate[] predicates) {
    for (Predicate predicate : predicates) {
      if (predicate.name().equals("IN")) {
        Set<String> touched = new HashSet<>();
        for (int i = 1; i < predicate.children().length; i++) {
          touched.add(String.valueOf(((Literal<?>) predicate.children()[i]).value()));
        }
        files = files().stream().filter(file -> touched.contains(file.location())).toList();
      }
    }
  }

  @Override
  public InputPartition[] planInputPartitions() {
    return tasks(files());
  }

  InputPartition[] tasks(List<FileSplit> files) {
    SparkSession spark = SparkSession.active();
    ScanOptions options = table.description().scanOptions();
    long largest =
        orElse(options.splitSize(), bytes(spark, "spark.sql.files.maxPartitionBytes", 128L << 20));
    long cost =
        orElse(options.fileOpenCost(), bytes(spark, "spark.sql.files.openCostInBytes", 4L << 20));
    long total = files.stream().mapToLong(file -> file.fileLength() + cost).sum();
    int cores =
        ((org.apache.spark.sql.classic.SparkSession) spark).sparkContext().defaultParallelism();
    int tasks = Math.max(1, orElse(options.parallelism(), cores));
    boolean adaptive = orElse(options.adaptive(), true);
    long size = adaptive ? Math.min(largest, Math.max(cost, total / tasks)) : largest;
    boolean local = orElse(options.locality(), true);
    List<FileSplit> pieces = new ArrayList<>();
    for (FileSplit file : files) {
      // Not split: files that are replaced, so that one task rewrites a file into one file.
      long most = file.isSplittable() && !wholeFiles ? size : file.fileLength();
      for (long start = 0; start < file.fileLength(); start += most) {
        pieces.add(file.piece(start, Math.min(most, file.fileLength() - start)));
      }
    }
    return packed(pieces, size, cost).stream()
        .map(task -> new ScanTask(task, local ? PreferredHosts.of(task, spark) : new String[0]))
        .toArray(InputPartition[]::new);
  }

  /** Packs splits as Spark does: the largest first, until a task is full. */
  private static List<FileSplit[]> packed(List<FileSplit> pieces, long size, long cost) {
    pieces.sort(Comparator.comparingLong((FileSplit piece) -> -piece.length()));
    List<FileSplit[]> tasks = new ArrayList<>();
    List<FileSplit> task = new ArrayList<>();
    long filled = 0;
    for (FileSplit piece : pieces) {
      if (!task.isEmpty() && filled + piece.length() > size) {
        tasks.add(task.toArray(new FileSplit[0]));
        task.clear();
        filled = 0;
      }
      task.add(piece);
      filled += piece.length() + cost;
    }
    if (!task.isEmpty()) {
      tasks.add(task.toArray(new FileSplit[0]));
    }
    return tasks;
  }

  private static <T> T orElse(T set, T otherwise) {
    return set == null ? otherwise : set;
  }

  private static long bytes(SparkSession spark, String name, long otherwise) {
    String text = spark.conf().get(name, null);
    return text == null
        ? otherwise
        : org.apache.spark.network.util.JavaUtils.byteStringAsBytes(text);
  }

  // -- read -------------------------------------------------------------------------------------

  private StructType known() {
    return table.description().readSchema();
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return reader(
        files().stream().anyMatch(file -> file.deleted() != null || file.python() != null));
  }

  /** `deletes` is true if a file may have deleted rows. */
  PartitionReaderFactory reader(boolean deletes) {
    return ReaderFactory.of(required, known(), rowGroupFilters(), deletes, vectorized());
  }

  /**
   * Spark matches Parquet filters by column name, so only columns that were never renamed and
   * cannot be NaN are safe. A file that is replaced must return all of its rows.
   */
  private List<Filter> rowGroupFilters() {
    if (wholeFiles) {
      return List.of();
    }
    Set<String> safe = Set.copyOf(table.description().filterableColumns());
    List<Filter> kept = new ArrayList<>();
    for (Filter filter : filters) {
      if (safe.containsAll(Arrays.asList(filter.references()))) {
        kept.add(filter);
      }
    }
    return kept;
  }
}
