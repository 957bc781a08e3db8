package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;

/** What stands around every request and answer; Python's {@code calls} and {@code frames}. */
public final class CallMessages {
  private CallMessages() {}

  /** The kinds of failures that have an exception of their own in Spark. */
  public enum FailureKind {
    ERROR,
    NO_SUCH_TABLE,
    TABLE_EXISTS,
    NO_SUCH_NAMESPACE,
    NAMESPACE_EXISTS,
    NAMESPACE_NOT_EMPTY
  }

  /** The first frame of the JVM. */
  public record Hello(int protocol, String token) implements Message {
    @Override
    public String toString() {
      return "Hello"; // and not the token
    }
  }

  /** The first frame of Python. */
  public record Welcome(int protocol, String sealberg) implements Message {}

  /** The line that the JVM writes to the stdin of a Python process that it has started. */
  public record StartDriver(
      int protocol,
      List<String> settings,
      @Nullable String sealberg,
      @Nullable String propertiesFile)
      implements Message {}

  /** The line that the process answers: its address, or why it has none. */
  public record DriverStarted(
      @Nullable String path, @Nullable String token, @Nullable Failure failure) implements Message {
    @Override
    public String toString() {
      return "DriverStarted"; // and not the token
    }
  }

  /**
   * The first request for a catalog; the answer is whether its KMS client is a class of Java.
   *
   * @param options spark.sql.catalog.NAME.* of the application's start, without the prefix
   * @param configured whether spark.sql.catalog.NAME was there as well; null: no
   */
  public record OpenCatalog(Map<String, String> options, @Nullable Boolean configured)
      implements Request<Boolean> {}

  /**
   * A request on its way to the backend of a catalog; null where there is nothing to say of its
   * session.
   */
  public record Call(String catalog, String verb, JsonNode arguments, @Nullable Session session)
      implements Message {}

  /**
   * Who sent a request, and what his session has otherwise than the application had at its start.
   *
   * @param settings the whole names of settings that say how a catalog or storage is reached
   * @param user of a server for SQL
   * @param authenticated whether the server has proved that it is this user
   */
  public record Session(
      List<String> settings, @Nullable String user, @Nullable Boolean authenticated)
      implements Message {}

  /** An error of Python. */
  public record Failure(FailureKind kind, String text) implements Message {}
}
