package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.channels.ClosedByInterruptException;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.Semaphore;
import java.util.function.Supplier;
import sealberg.bridge.CallMessages.Call;

/**
 * The Python process behind catalogs, reached by a few connections that Spark's threads borrow.
 *
 * <pre>
 *   thread of Spark ── borrows a connection ──>  Unix domain socket  ──> sealberg.spark.driver.bridge_server
 *                   <── gives it back after the answer, or closes it if anything went wrong
 * </pre>
 *
 * Spark has a thread for each stage, query and broadcast, and makes new ones all the time: a
 * connection for each of them would never be closed. A thread holds a connection during one call
 * only, and Python starts no Spark job in a call, so a thread that waits for a connection gets one.
 */
final class PythonBackend {
  static final int MOST_CONNECTIONS = 16;

  private final String path;
  private final String token;
  private final Supplier<String> wayOut;
  private final Semaphore free = new Semaphore(MOST_CONNECTIONS);
  private final ConcurrentLinkedDeque<PythonConnection> idle = new ConcurrentLinkedDeque<>();

  /**
   * Makes no connection yet.
   *
   * @param wayOut what to do when Python cannot be reached, as a sentence for the user
   */
  PythonBackend(String path, String token, Supplier<String> wayOut) {
    this.path = path;
    this.token = token;
    this.wayOut = wayOut;
  }

  boolean isAt(String otherPath, String otherToken) {
    return path.equals(otherPath) && token.equals(otherToken);
  }

  /** The answer of Python, or its failure. */
  JsonNode call(String catalog, Request<?> request) {
    boolean interruptible = request instanceof Request.OfRead<?>;
    Call call =
        new Call(
            catalog, request.verb(), MessageCodec.write(request), SessionSettings.session(catalog));
    boolean asked = false;
    acquire(interruptible);
    try {
      PythonConnection connection = null;
      try {
        connection = idle.pollFirst();
        if (connection == null) {
          connection = PythonConnection.open(path, token, interruptible);
        }
        asked = true;
        JsonNode answer = connection.call(call, interruptible);
        idle.addFirst(connection);
        return answer;
      } catch (IOException | RuntimeException | Error error) {
        if (connection != null) {
          connection.close();
        }
        throw error;
      }
    } catch (ClosedByInterruptException error) {
      throw PythonBridge.raised(error); // which Spark knows for what it is
    } catch (IOException error) {
      closeIdle(); // whatever ended this one has ended them
      throw PythonBridge.raised(
          PythonBridge.analysis(lost(catalog, request.verb(), asked && !interruptible, error)));
    } finally {
      free.release();
    }
  }

  /** A connection beside those that threads borrow. */
  PythonConnection connect() throws IOException {
    return PythonConnection.open(path, token, false);
  }

  private void acquire(boolean interruptible) {
    if (!interruptible) {
      free.acquireUninterruptibly();
      return;
    }
    try {
      free.acquire();
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw PythonBridge.raised(error);
    }
  }

  void closeIdle() {
    for (PythonConnection unused = idle.pollFirst(); unused != null; unused = idle.pollFirst()) {
      unused.close();
    }
  }

  private String lost(String catalog, String verb, boolean unsure, IOException error) {
    String unknown =
        unsure
            ? "; whether \""
                + verb
                + "\" was carried out is not known, so look before you repeat it"
            : "";
    return "the Python process behind catalog "
        + catalog
        + " cannot be reached ("
        + error.getMessage()
        + ")"
        + unknown
        + ". "
        + wayOut.get();
  }
}
