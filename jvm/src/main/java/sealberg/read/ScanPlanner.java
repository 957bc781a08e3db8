package sealberg.read;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.spark.SparkContext;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.ScanMessages.CancelPlan;
import sealberg.bridge.ScanMessages.ContinuePlan;
import sealberg.bridge.ScanMessages.PlanFiles;
import sealberg.bridge.ScanMessages.PlanStep;
import sealberg.bridge.ScanMessages.PlanTasks;
import sealberg.bridge.ScanMessages.PlannedFile;
import sealberg.bridge.ScanMessages.Planning;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.ScanMessages.ScanRequest;
import sealberg.bridge.TableMessages.ScanOptions;
import sealberg.catalog.EncryptedTable;
import sealberg.worker.TaskJob;

/**
 * The plan of a scan, by Python; tasks of this session read the manifests of a very large one.
 *
 * <pre>
 *   ScanRequest ──> Python ── PlanTasks ──> a Spark job ── ContinuePlan ──> Python ── ScanPlan
 *                          ├─ PlanFiles ──> kept ── ContinuePlan ──> Python ── PlanFiles or ScanPlan
 *                          └─ ScanPlan
 * </pre>
 */
final class ScanPlanner {
  private static final String RESULTS = "spark.driver.maxResultSize";

  private ScanPlanner() {}

  static ScanPlan plan(EncryptedTable table, StructType required, Filter[] filters) {
    Planning planning = planning(table.description().scanOptions());
    ScanRequest request =
        new ScanRequest(table.handle(), required, FilterJson.messages(filters), planning);
    PlanStep step = orCancelled(table, planning.call(), () -> table.ask(request));
    List<PlannedFile> files = new ArrayList<>();
    while (!(step instanceof ScanPlan)) {
      List<byte[]> results = List.of();
      if (step instanceof PlanFiles some) {
        files.addAll(some.files());
      } else {
        PlanTasks tasks = (PlanTasks) step;
        results =
            orCancelled(
                table,
                planning.call(),
                () -> new TaskJob().run(tasks.description(), tasks.python(), tasks.tasks()));
      }
      step = table.ask(new ContinuePlan(planning.call(), results));
    }
    ScanPlan plan = (ScanPlan) step;
    return files.isEmpty() ? plan : plan.after(files);
  }

  private static Planning planning(ScanOptions options) {
    SparkContext context = SparkSession.active().sparkContext();
    int slots = Math.max(1, context.defaultParallelism());
    return new Planning(
        UUID.randomUUID().toString(),
        slots,
        Math.max(slots, SQLConf.get().numShufflePartitions()),
        JavaUtils.byteStringAsBytes(context.conf().get(RESULTS, "1g")),
        options.dataPlanning(),
        options.deletePlanning());
  }

  /** If this fails, Python ends the plan first. */
  private static <A> A orCancelled(EncryptedTable table, String call, Supplier<A> act) {
    try {
      return act.get();
    } catch (Throwable error) { // Spark's errors and interrupts are not declared
      try {
        table.ask(new CancelPlan(call));
      } catch (RuntimeException gone) { // Python has ended: the first error says more
        error.addSuppressed(gone);
      }
      if (error instanceof Error failure) {
        throw failure;
      }
      throw PythonBridge.raised((Exception) error);
    }
  }
}
