package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** CALL, SHOW PROCEDURES and DESCRIBE PROCEDURE. Python's {@code procedures}. */
public final class ProcedureMessages {
  private ProcedureMessages() {}

  /** A parameter; one that is not required is NULL if the call leaves it out. */
  public record ProcedureParameter(String name, DataType type, boolean required, String comment)
      implements Message {}

  public record ProcedureDescription(
      String name, String description, List<ProcedureParameter> parameters) implements Message {}

  /** All procedures of a catalog, which are in its namespace {@code system}. */
  public record ListProcedures() implements Request.OfRead<List<ProcedureDescription>> {}

  /** What a call needs next, or its result. */
  public sealed interface ProcedureStep extends Message {}

  /** The result. */
  @Message.Tag("rows")
  public record ProcedureRows(StructType schema, List<List<JsonNode>> rows)
      implements ProcedureStep {}

  /**
   * Work for the tasks of Spark.
   *
   * @param python the program that executors start as the Python worker
   * @param tasks hold the keys of their own files
   */
  @Message.Tag("tasks")
  public record ProcedureTasks(String call, String description, String python, List<byte[]> tasks)
      implements ProcedureStep {
    @Override
    public String toString() {
      return "ProcedureTasks[" + description + "]"; // and not the tasks
    }
  }

  /** A filter that Spark must resolve against the columns of a table. */
  @Message.Tag("filter")
  public record ProcedureFilter(String call, List<String> table, String text)
      implements ProcedureStep {}

  /**
   * Call a procedure.
   *
   * @param currentNamespace where a table whose name has one part is looked up
   */
  public record CallProcedure(
      String procedure,
      Map<String, JsonNode> arguments,
      List<String> currentNamespace,
      Map<String, String> settings,
      boolean caseSensitive)
      implements Request<ProcedureStep> {}

  /** The results of the tasks, in the order of the tasks. */
  public record ContinueProcedure(String call, List<byte[]> results)
      implements Request<ProcedureStep> {
    @Override
    public String toString() {
      return "ContinueProcedure[" + call + "]";
    }
  }

  /** The filter, resolved. */
  public record ContinueWithFilter(String call, FilterMessages.FilterMessage filter)
      implements Request<ProcedureStep> {}

  /**
   * The Spark job of a call has failed or was cancelled.
   *
   * @param results of the tasks that were finished by then
   */
  public record CancelProcedure(String call, List<byte[]> results) implements Request<Void> {
    @Override
    public String toString() {
      return "CancelProcedure[" + call + "]";
    }
  }
}
