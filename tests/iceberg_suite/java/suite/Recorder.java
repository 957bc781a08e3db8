package suite;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.spark.SuiteSession;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;

/** Writes what became of each test: class, method, row of parameters, status, error and notes. */
final class Recorder implements TestExecutionListener {
  private static final Pattern CLASS = Pattern.compile("\\[class:([^]]+)]");
  private static final int TRACE = 6000;

  private final Path file;
  private final ObjectMapper json = new ObjectMapper();
  private final Map<String, Long> started = new ConcurrentHashMap<>();

  Recorder(Path file) {
    this.file = file;
  }

  @Override
  public void executionStarted(TestIdentifier test) {
    started.put(test.getUniqueId(), System.currentTimeMillis());
    if (test.isTest()) {
      SuiteSession.remember();
    }
  }

  @Override
  public void executionSkipped(TestIdentifier test, String reason) {
    write(test, "skipped", null);
  }

  @Override
  public void executionFinished(TestIdentifier test, TestExecutionResult result) {
    boolean failed = result.getStatus() == TestExecutionResult.Status.FAILED;
    if (test.isTest() && failed) {
      SuiteSession.clean();
    }
    if (test.isTest() || failed) { // what is no test fails in its set-up
      write(
          test,
          result.getStatus().name().toLowerCase(Locale.ROOT),
          result.getThrowable().orElse(null));
    }
  }

  private void write(TestIdentifier test, String status, Throwable error) {
    Map<String, Object> line = new LinkedHashMap<>();
    test.getSource()
        .ifPresent(
            source -> {
              if (source instanceof MethodSource method) {
                line.put("class", running(test.getUniqueId(), method.getClassName()));
                line.put("method", method.getMethodName());
              } else if (source instanceof ClassSource type) {
                line.put("class", type.getClassName());
              }
            });
    long now = System.currentTimeMillis();
    line.put("row", test.getDisplayName());
    line.put("status", status);
    line.put("ms", now - started.getOrDefault(test.getUniqueId(), now));
    line.put("notes", List.copyOf(SuiteSession.NOTES));
    SuiteSession.NOTES.clear();
    if (error != null) {
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace));
      line.put("error", error.getClass().getName() + ": " + error.getMessage());
      line.put("trace", trace.toString().substring(0, Math.min(TRACE, trace.toString().length())));
    }
    try {
      Files.writeString(
          file,
          json.writeValueAsString(line) + "\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /** The class that runs the test, which may inherit it. */
  private static String running(String id, String declared) {
    Matcher found = CLASS.matcher(id);
    return found.find() ? found.group(1) : declared;
  }
}
