package sealberg.bridge;

import java.util.List;
import org.apache.spark.sql.types.DataType;

/** The changes of an ALTER TABLE, by the names of Spark's TableChange. Python's {@code changes}. */
public final class TableChangeMessages {
  private TableChangeMessages() {}

  public sealed interface TableChangeMessage extends Message {}

  @Message.Tag("set-property")
  public record SetProperty(String name, String value) implements TableChangeMessage {}

  @Message.Tag("remove-property")
  public record RemoveProperty(String name) implements TableChangeMessage {}

  /** FIRST, or AFTER a column of the same struct. */
  public record ColumnPosition(@Nullable String after) implements Message {}

  /** {@code defaultSql} is the expression of DEFAULT. */
  @Message.Tag("add-column")
  public record AddColumn(
      List<String> column,
      DataType dataType,
      boolean nullable,
      @Nullable String comment,
      @Nullable String defaultSql,
      @Nullable ColumnPosition position)
      implements TableChangeMessage {}

  @Message.Tag("rename-column")
  public record RenameColumn(List<String> column, String name) implements TableChangeMessage {}

  @Message.Tag("delete-column")
  public record DeleteColumn(List<String> column, boolean ifExists) implements TableChangeMessage {}

  @Message.Tag("update-column-type")
  public record UpdateColumnType(List<String> column, DataType dataType)
      implements TableChangeMessage {}

  @Message.Tag("update-column-nullability")
  public record UpdateColumnNullability(List<String> column, boolean nullable)
      implements TableChangeMessage {}

  @Message.Tag("update-column-comment")
  public record UpdateColumnComment(List<String> column, @Nullable String comment)
      implements TableChangeMessage {}

  @Message.Tag("update-column-position")
  public record UpdateColumnPosition(List<String> column, ColumnPosition position)
      implements TableChangeMessage {}

  /**
   * A change of Spark's that sealberg does not know; {@code name} is that of its class. Python
   * refuses it.
   */
  @Message.Tag("unsupported")
  public record UnsupportedChange(String name) implements TableChangeMessage {}
}
