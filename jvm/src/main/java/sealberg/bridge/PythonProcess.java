package sealberg.bridge;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import sealberg.bridge.CallMessages.DriverStarted;
import sealberg.bridge.CallMessages.OpenCatalog;
import sealberg.bridge.CallMessages.StartDriver;
import sealberg.catalog.EncryptedCatalog;
import sealberg.catalog.SessionCatalog;
import sealberg.worker.PythonPath;

/**
 * The Python process that this JVM starts for its catalogs when no Python driver has called {@code
 * install}.
 *
 * <pre>
 *   JVM ── stdin ──>   StartDriver                                      python -m sealberg.spark.driver
 *       <── stdout ──  DriverStarted: a socket and its token, or a failure
 *       ── socket ──>  OpenCatalog, then the requests of {@link PythonBackend}
 * </pre>
 *
 * <p>One process serves all catalogs of an application. The process ends when its stdin ends: when
 * the application ends, or when this JVM ends, by SIGKILL too. After a crash, the statement at hand
 * fails and the next statement starts a new process.
 */
final class PythonProcess {
  static final String PYTHON = "spark.sealberg.python";
  static final String PROPERTIES_FILE = "spark.sealberg.properties-file";

  private static final Logger LOG = LoggerFactory.getLogger(PythonProcess.class);
  private static final String VERSION = PythonProcess.class.getPackage().getImplementationVersion();
  private static final Set<String> CLASSES =
      Set.of(EncryptedCatalog.class.getName(), SessionCatalog.class.getName());
  private static final int START_SECONDS = 120;
  private static final int KEPT_LINES = 20;
  private static volatile PythonProcess current;

  private final String application;
  private final String python;
  private final Process process;
  private final Deque<String> lastLines = new ArrayDeque<>();
  private final Set<String> opened = ConcurrentHashMap.newKeySet();
  private final PythonBackend backend;

  /**
   * The Python behind a catalog: started if there is none, and told of the catalog if it does not
   * know the catalog.
   */
  static PythonBackend serving(String catalog, SparkContext context) {
    PythonProcess found = current;
    if (found != null && found.isFor(context) && found.opened.contains(catalog)) {
      return found.backend;
    }
    return opened(catalog, context);
  }

  private static synchronized PythonBackend opened(String catalog, SparkContext context) {
    if (current != null && !current.isFor(context)) {
      current.end();
      current = null;
    }
    if (current == null) {
      current = new PythonProcess(context);
      context.addSparkListener(new EndWithApplication(current));
    }
    if (!current.opened.contains(catalog)) {
      String named = context.conf().get("spark.sql.catalog." + catalog, "");
      OpenCatalog request =
          new OpenCatalog(SessionSettings.startOptions(catalog), CLASSES.contains(named));
      if (PythonBridge.call(current.backend, catalog, request)) {
        JavaKms.serve(catalog, current.backend);
      }
      current.opened.add(catalog);
    }
    return current.backend;
  }

  private boolean isFor(SparkContext context) {
    return process.isAlive() && application.equals(context.applicationId());
  }

  private PythonProcess(SparkContext context) {
    this.application = context.applicationId();
    this.python = python(context.conf());
    this.process = start();
    Thread log = new Thread(this::readLog, "sealberg-python-log");
    log.setDaemon(true);
    log.start();
    DriverStarted answer = hello(context.conf());
    if (answer.failure() != null) {
      end();
      throw PythonBridge.raised(PythonBridge.analysis(answer.failure().text()));
    }
    this.backend = new PythonBackend(answer.path(), answer.token(), this::ended);
    LOG.info("started {} (process {}) for the catalogs of {}", python, process.pid(), application);
  }

  private static String python(SparkConf conf) {
    if (conf.contains(PYTHON)) {
      return conf.get(PYTHON);
    }
    for (String variable : new String[] {"PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"}) {
      String named = System.getenv(variable);
      if (named != null && !named.isBlank()) {
        return named;
      }
    }
    return "python3";
  }

  private Process start() {
    // -P: nothing in the working directory is imported.
    ProcessBuilder command = new ProcessBuilder(python, "-P", "-m", "sealberg.spark.driver");
    PythonPath.set(command.environment());
    try {
      return command.start();
    } catch (IOException error) {
      throw failed("cannot be started (" + error.getMessage() + ")");
    }
  }

  /** Sends what the process needs to know, and waits for its answer. */
  private DriverStarted hello(SparkConf conf) {
    String file = conf.contains(PROPERTIES_FILE) ? conf.get(PROPERTIES_FILE) : null;
    StartDriver hello =
        new StartDriver(PythonConnection.PROTOCOL, ownSettings(conf), VERSION, file);
    BufferedReader answers =
        new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    try {
      OutputStream requests =
          process.getOutputStream(); // stays open: its end is the end of the process
      requests.write((MessageCodec.write(hello) + "\n").getBytes(StandardCharsets.UTF_8));
      requests.flush();
    } catch (IOException error) {
      LOG.debug(
          "{} took no hello: {}",
          python,
          error.getMessage()); // it has ended, and its stderr says why
    }
    CompletableFuture<String> line =
        CompletableFuture.supplyAsync(
            () -> {
              try {
                return answers.readLine();
              } catch (IOException error) {
                return null;
              }
            });
    String answer = null;
    try {
      answer = line.get(START_SECONDS, TimeUnit.SECONDS);
    } catch (TimeoutException | InterruptedException | ExecutionException error) {
      end();
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      throw failed(
          "gave no answer"
              + (error instanceof TimeoutException ? " in " + START_SECONDS + " seconds" : ""));
    }
    if (answer == null) {
      throw failed(reason());
    }
    return MessageCodec.read(MessageCodec.parsed(answer), DriverStarted.class);
  }

  /** Python knows which of them exist, and refuses the others. */
  private static List<String> ownSettings(SparkConf conf) {
    return Arrays.stream(conf.getAll())
        .map(setting -> setting._1())
        .filter(name -> name.startsWith("spark.sealberg."))
        .sorted()
        .toList();
  }

  /** Why the process ended before it answered, in words that say what to do. */
  private String reason() {
    String code = exitCode();
    String said = said();
    if (said.contains("No module named sealberg") || said.contains("No module named 'sealberg")) {
      return "has no sealberg. Run `"
          + python
          + " -m pip install 'sealberg[spark]"
          + (VERSION == null ? "" : "==" + VERSION)
          + "'` on this host";
    }
    if (said.contains("Unknown option: -P") || said.contains("unknown option -P")) {
      return "is older than Python 3.11, which sealberg needs";
    }
    return "ended with " + code + " before it answered: " + said;
  }

  private RuntimeException failed(String what) {
    return PythonBridge.raised(
        PythonBridge.analysis(
            "the Python process for catalogs of sealberg, "
                + python
                + ", "
                + what
                + ". "
                + PYTHON
                + " names another Python; without it, PYSPARK_DRIVER_PYTHON, PYSPARK_PYTHON and"
                + " python3 are tried"));
  }

  /** What to say of a request that got no answer. */
  private String ended() {
    if (process.isAlive() && !waited()) {
      return "The process " + process.pid() + " still runs; try the statement again";
    }
    return "The process "
        + process.pid()
        + " has ended with "
        + exitCode()
        + (said().isEmpty() ? "" : ": " + said())
        + ". The next statement starts a new one";
  }

  private boolean waited() {
    try {
      return process.waitFor(2, TimeUnit.SECONDS);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  private String exitCode() {
    return waited() ? "exit code " + process.exitValue() : "an unknown exit code";
  }

  private void end() {
    try {
      process.getOutputStream().close();
    } catch (IOException error) {
      // The process has closed the pipe: it is ending by itself.
    }
    if (backend != null) {
      backend.closeIdle();
    }
    if (!waited()) {
      process.destroyForcibly();
    }
  }

  private void readLog() {
    try (BufferedReader lines =
        new BufferedReader(
            new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        LOG.warn("python: {}", line);
        synchronized (lastLines) {
          lastLines.addLast(line);
          if (lastLines.size() > KEPT_LINES) {
            lastLines.removeFirst();
          }
        }
      }
    } catch (IOException error) {
      LOG.debug("no more of Python's log: {}", error.getMessage());
    }
  }

  /** The last lines of the process's stderr. */
  private String said() {
    synchronized (lastLines) {
      return String.join("\n", lastLines);
    }
  }

  /** A JVM can outlive its applications: a notebook stops one session and starts another. */
  private static final class EndWithApplication extends SparkListener {
    private final PythonProcess process;

    EndWithApplication(PythonProcess process) {
      this.process = process;
    }

    @Override
    public void onApplicationEnd(SparkListenerApplicationEnd end) {
      process.end();
    }
  }
}
