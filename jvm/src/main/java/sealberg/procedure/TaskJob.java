package sealberg.procedure;

import java.io.IOException;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.Function;
import org.apache.spark.sql.SparkSession;
import sealberg.bridge.ProcedureMessages.ProcedureTasks;
import sealberg.worker.PythonWorker;

/**
 * The tasks of a procedure as one Spark job of the calling session.
 *
 * <p>A task holds the keys of its own files. Spark sends tasks through its own messages, which a
 * session of sealberg encrypts, and writes none of them to disk.
 */
final class TaskJob {
  /** A task costs up to a quarter of a second beside its files. */
  private static final int TASKS_PER_CORE = 4;

  private static final String DESCRIPTION = "spark.job.description";

  private TaskJob() {}

  static List<byte[]> run(ProcedureTasks tasks) {
    SparkContext context = SparkSession.active().sparkContext();
    int slices = Math.min(tasks.tasks().size(), TASKS_PER_CORE * context.defaultParallelism());
    String former = context.getLocalProperty(DESCRIPTION);
    context.setJobDescription(tasks.description());
    try {
      return JavaSparkContext.fromSparkContext(context)
          .parallelize(tasks.tasks(), Math.max(1, slices))
          .map(new RunTask(tasks.python()))
          .collect();
    } finally {
      context.setJobDescription(former);
    }
  }

  /** Runs one task in the Python worker of an executor. */
  private record RunTask(String python) implements Function<byte[], byte[]> {
    @Override
    public byte[] call(byte[] task) throws IOException {
      try (PythonWorker worker = PythonWorker.of(python, null, null)) {
        worker.ask("run-task", task);
        return worker.result();
      }
    }
  }
}
