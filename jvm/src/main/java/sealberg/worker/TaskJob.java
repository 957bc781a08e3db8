package sealberg.worker;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.FutureConverters;
import sealberg.bridge.PythonBridge;

/**
 * Tasks that Python hands out, for a procedure or for a plan, as one Spark job of the calling
 * session.
 *
 * <p>A task holds the keys of its own files. Spark sends tasks through its own messages, which a
 * session of sealberg encrypts, and writes none of them to disk.
 *
 * <p>If the job ends early, the results of its finished tasks are still there: Python deletes what
 * these tasks have written.
 */
public final class TaskJob {
  private static final Logger LOG = LoggerFactory.getLogger(TaskJob.class);

  /** A task costs up to a quarter of a second beside its files. */
  private static final int TASKS_PER_CORE = 4;

  private static final String DESCRIPTION = "spark.job.description";

  private final ConcurrentSkipListMap<Integer, byte[][]> finished = new ConcurrentSkipListMap<>();

  /** The results of all tasks, in their order. */
  public List<byte[]> run(String description, String python, List<byte[]> tasks) {
    LOG.info("{}: {} tasks begin", description, tasks.size());
    SparkContext context = SparkSession.active().sparkContext();
    int slices = Math.max(1, Math.min(tasks.size(), TASKS_PER_CORE * context.defaultParallelism()));
    String former = context.getLocalProperty(DESCRIPTION);
    context.setJobDescription(description);
    try {
      JavaRDD<byte[]> rdd = JavaSparkContext.fromSparkContext(context).parallelize(tasks, slices);
      wait(context, rdd, new RunTasks(python), slices);
    } finally {
      context.setJobDescription(former);
    }
    LOG.info("{}: {} tasks are done", description, tasks.size());
    return results();
  }

  /** The results of the tasks that are finished, in their order. */
  public List<byte[]> results() {
    List<byte[]> results = new ArrayList<>();
    finished.values().forEach(part -> results.addAll(List.of(part)));
    return results;
  }

  private void wait(SparkContext context, JavaRDD<byte[]> rdd, RunTasks work, int slices) {
    List<Object> partitions = new ArrayList<>();
    IntStream.range(0, slices).forEach(partitions::add);
    var job =
        context.<byte[], byte[][], Void>submitJob(
            rdd.rdd(),
            work,
            CollectionConverters.asScala(partitions).toList(),
            (at, results) -> {
              finished.put((Integer) at, results);
              return null;
            },
            () -> null);
    try {
      FutureConverters.asJava(job).toCompletableFuture().get();
    } catch (InterruptedException error) { // Spark leaves the tasks of an interrupted thread alone
      job.cancel();
      Thread.currentThread().interrupt();
      throw PythonBridge.raised(error);
    } catch (ExecutionException error) {
      throw error.getCause() instanceof Exception cause
          ? PythonBridge.raised(cause)
          : new IllegalStateException(error.getCause());
    }
  }

  /** Runs the tasks of a slice in the Python worker of an executor. */
  private record RunTasks(String python)
      implements Function1<Iterator<byte[]>, byte[][]>, java.io.Serializable {
    @Override
    public byte[][] apply(Iterator<byte[]> tasks) {
      List<byte[]> results = new ArrayList<>();
      while (tasks.hasNext()) {
        results.add(result(tasks.next()));
      }
      return results.toArray(byte[][]::new);
    }

    private byte[] result(byte[] task) {
      try (PythonWorker worker = PythonWorker.of(python, null, null);
          Closeable watch = worker.stopWith(TaskContext.get())) {
        assert watch != null : "closed at the end";
        worker.ask("run-task", task);
        return worker.result();
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    }
  }
}
