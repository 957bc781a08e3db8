package sealberg.worker;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.TaskContext;
import sealberg.crypto.FileIntegrityException;
import sealberg.storage.StoredFile;
import sealberg.storage.TableStorage;

/**
 * A Python process beside a task, for files that Spark cannot read or write itself, such as Avro
 * files.
 *
 * <pre>
 *   task ── a request, with the keys of the task's own files ──>  python -m sealberg.spark.worker
 *        <── R  a request for a range of a stored file ──> the task reads it by Hadoop's file system
 *        <── B  rows, as an Arrow stream             W  bytes for the file that is being written
 *        <── D  done, with a result                  E  an error message
 * </pre>
 *
 * Keys are sent through the pipe, because other users can see the command line and the environment.
 * The process does not access storage, so it needs no credentials. It serves one request at a time,
 * and ends a minute after the last request.
 */
public final class PythonWorker implements AutoCloseable {
  private static final ConcurrentLinkedDeque<PythonWorker> IDLE = new ConcurrentLinkedDeque<>();
  private static final ScheduledExecutorService CLOCK =
      Executors.newSingleThreadScheduledExecutor(PythonWorker::daemon);
  private static final long IDLE_SECONDS = 60;

  private static final long WATCH_MILLIS = 100;
  private static final long STOP_SECONDS = 10;

  private final String python;
  private final Process process;
  private final DataInputStream in;
  private final DataOutputStream out;
  private final Map<String, FSDataInputStream> open = new HashMap<>();
  private TableStorage storage;
  private Configuration conf;
  private boolean done = true;
  private byte[] result;

  private PythonWorker(String python) throws IOException {
    this.python = python;
    // -P: no module is imported from the working directory.
    ProcessBuilder command = new ProcessBuilder(python, "-P", "-m", "sealberg.spark.worker");
    PythonPath.set(command.environment());
    this.process = command.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    this.in = new DataInputStream(new BufferedInputStream(process.getInputStream(), 1 << 16));
    this.out = new DataOutputStream(new BufferedOutputStream(process.getOutputStream(), 1 << 16));
  }

  public static PythonWorker of(String python, TableStorage storage, Configuration conf)
      throws IOException {
    PythonWorker worker = idle(python);
    worker.storage = storage;
    worker.conf = conf;
    return worker;
  }

  /** Begins a request: a verb and its arguments. */
  public void ask(String verb, byte[]... about) throws IOException {
    done = false;
    try {
      out.writeInt(about.length + 1);
      put(verb.getBytes(StandardCharsets.UTF_8));
      for (byte[] one : about) {
        put(one);
      }
      out.flush();
    } catch (IOException error) {
      throw ended();
    }
  }

  private static PythonWorker idle(String python) throws IOException {
    for (PythonWorker one : IDLE) {
      if (one.python.equals(python) && IDLE.remove(one)) {
        if (one.process.isAlive()) {
          return one;
        }
        one.process.destroyForcibly();
      }
    }
    return new PythonWorker(python);
  }

  /** The next rows or bytes; null when the worker is done. */
  public byte[] next() throws IOException {
    try {
      while (true) {
        int kind = in.readUnsignedByte();
        byte[] payload = in.readNBytes(in.readInt());
        switch (kind) {
          case 'R' -> serve(ByteBuffer.wrap(payload));
          case 'D' -> {
            done = true;
            result = payload;
            return null;
          }
          case 'E' -> {
            done = true;
            throw new FileIntegrityException(new String(payload, StandardCharsets.UTF_8));
          }
          default -> {
            return payload;
          }
        }
      }
    } catch (EOFException error) {
      throw ended();
    }
  }

  /** The result that came at the end of the request. */
  public byte[] result() throws IOException {
    while (!done) {
      next();
    }
    return result;
  }

  private void give(byte[] payload) throws IOException {
    put(payload);
    out.flush();
  }

  private void put(byte[] payload) throws IOException {
    out.writeInt(payload.length);
    out.write(payload);
  }

  /**
   * Answers with a range of a file or, if the requested length is negative, with the length of the
   * file.
   */
  private void serve(ByteBuffer asked) throws IOException {
    long offset = asked.getLong();
    int length = asked.getInt();
    String location = StandardCharsets.UTF_8.decode(asked).toString();
    try {
      Path path = TableStorage.path(location, conf);
      if (length < 0) {
        long found = storage.fileSystem(path, conf).fs().getFileStatus(path).getLen();
        give(ByteBuffer.allocate(8).putLong(found).array());
        return;
      }
      FSDataInputStream stream = open.get(location);
      if (stream == null) {
        stream = StoredFile.open(storage, path, conf, -1);
        open.put(location, stream);
      }
      stream.seek(offset);
      give(stream.readNBytes(length));
    } catch (IOException | RuntimeException error) {
      out.writeInt(-1);
      give(String.valueOf(error.getMessage()).getBytes(StandardCharsets.UTF_8));
    }
  }

  private FileIntegrityException ended() {
    String code = process.isAlive() ? "" : " (exit code " + process.exitValue() + ")";
    return new FileIntegrityException(
        "the Python worker of this task ended"
            + code
            + "; check that "
            + python
            + " can import sealberg, and see the executor's log");
  }

  /**
   * Keeps a worker that has finished its request for the next one, and ends a worker that has not.
   */
  @Override
  public void close() {
    for (FSDataInputStream stream : open.values()) {
      try {
        stream.close();
      } catch (IOException error) {
        // The stream was only read.
      }
    }
    open.clear();
    if (!done) {
      end();
      return;
    }
    IDLE.addFirst(this);
    CLOCK.schedule(this::retire, IDLE_SECONDS, TimeUnit.SECONDS);
  }

  /** Ends the process, and with it an unfinished request. */
  public void end() {
    process.destroyForcibly();
  }

  /**
   * Asks the process to end when Spark kills the task. The worker deletes the files that it has
   * begun; after ten seconds it is ended by force. (A thread that reads from a process cannot be
   * interrupted.)
   *
   * @return ends the watch
   */
  public Closeable stopWith(TaskContext task) {
    ScheduledFuture<?> watch =
        CLOCK.scheduleWithFixedDelay(
            () -> {
              if (task.isInterrupted() && process.isAlive()) {
                process.destroy();
                CLOCK.schedule(process::destroyForcibly, STOP_SECONDS, TimeUnit.SECONDS);
                throw new CancellationException("no further watch");
              }
            },
            WATCH_MILLIS,
            WATCH_MILLIS,
            TimeUnit.MILLISECONDS);
    return () -> watch.cancel(false);
  }

  private void retire() {
    if (IDLE.remove(this)) {
      process.destroy();
    }
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "sealberg-workers");
    thread.setDaemon(true);
    return thread;
  }
}
