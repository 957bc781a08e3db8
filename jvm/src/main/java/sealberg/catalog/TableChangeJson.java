package sealberg.catalog;

import java.util.List;
import org.apache.spark.sql.connector.catalog.TableChange;
import sealberg.bridge.TableChangeMessages.AddColumn;
import sealberg.bridge.TableChangeMessages.ColumnPosition;
import sealberg.bridge.TableChangeMessages.DeleteColumn;
import sealberg.bridge.TableChangeMessages.RemoveProperty;
import sealberg.bridge.TableChangeMessages.RenameColumn;
import sealberg.bridge.TableChangeMessages.SetProperty;
import sealberg.bridge.TableChangeMessages.TableChangeMessage;
import sealberg.bridge.TableChangeMessages.UnsupportedChange;
import sealberg.bridge.TableChangeMessages.UpdateColumnComment;
import sealberg.bridge.TableChangeMessages.UpdateColumnNullability;
import sealberg.bridge.TableChangeMessages.UpdateColumnPosition;
import sealberg.bridge.TableChangeMessages.UpdateColumnType;

/** Converts Spark's changes of ALTER TABLE to messages for Python. */
final class TableChangeJson {
  private TableChangeJson() {}

  static TableChangeMessage message(TableChange change) {
    if (change instanceof TableChange.SetProperty set) {
      return new SetProperty(set.property(), set.value());
    }
    if (change instanceof TableChange.RemoveProperty removed) {
      return new RemoveProperty(removed.property());
    }
    return change instanceof TableChange.ColumnChange column
        ? message(column)
        : unsupported(change);
  }

  private static TableChangeMessage message(TableChange.ColumnChange change) {
    List<String> column = List.of(change.fieldNames());
    if (change instanceof TableChange.AddColumn added) {
      String defaultSql = added.defaultValue() == null ? null : added.defaultValue().getSql();
      ColumnPosition position = added.position() == null ? null : position(added.position());
      return new AddColumn(
          column, added.dataType(), added.isNullable(), added.comment(), defaultSql, position);
    }
    if (change instanceof TableChange.RenameColumn renamed) {
      return new RenameColumn(column, renamed.newName());
    }
    if (change instanceof TableChange.DeleteColumn deleted) {
      return new DeleteColumn(column, Boolean.TRUE.equals(deleted.ifExists()));
    }
    if (change instanceof TableChange.UpdateColumnType updated) {
      return new UpdateColumnType(column, updated.newDataType());
    }
    if (change instanceof TableChange.UpdateColumnNullability updated) {
      return new UpdateColumnNullability(column, updated.nullable());
    }
    if (change instanceof TableChange.UpdateColumnComment updated) {
      return new UpdateColumnComment(column, updated.newComment());
    }
    if (change instanceof TableChange.UpdateColumnPosition updated) {
      return new UpdateColumnPosition(column, position(updated.position()));
    }
    return unsupported(change);
  }

  private static ColumnPosition position(TableChange.ColumnPosition position) {
    return new ColumnPosition(position instanceof TableChange.After after ? after.column() : null);
  }

  private static UnsupportedChange unsupported(TableChange change) {
    return new UnsupportedChange(change.getClass().getSimpleName());
  }
}
