package sealberg.catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.TableChange;
import sealberg.bridge.PythonBridge;

/** ALTER TABLE as JSON, one object a change: {"do": "add-column", "column": [...], ...}. */
final class TableChangeJson {
  private TableChangeJson() {}

  static ObjectNode described(TableChange change) {
    if (change instanceof TableChange.SetProperty one) {
      return doing("set-property").put("name", one.property()).put("value", one.value());
    }
    if (change instanceof TableChange.RemoveProperty one) {
      return doing("remove-property").put("name", one.property());
    }
    if (change instanceof TableChange.AddColumn one) {
      return added(one);
    }
    if (change instanceof TableChange.RenameColumn one) {
      return on("rename-column", one).put("name", one.newName());
    }
    if (change instanceof TableChange.DeleteColumn one) {
      return on("drop-column", one).put("if-exists", Boolean.TRUE.equals(one.ifExists()));
    }
    if (change instanceof TableChange.UpdateColumnType one) {
      return typed(on("widen-column", one), one.newDataType());
    }
    if (change instanceof TableChange.UpdateColumnNullability one) {
      return on("set-nullability", one).put("nullable", one.nullable());
    }
    if (change instanceof TableChange.UpdateColumnComment one) {
      return on("set-comment", one).put("comment", one.newComment());
    }
    if (change instanceof TableChange.UpdateColumnPosition one) {
      return placed(on("move-column", one), one.position());
    }
    return doing(change.getClass().getSimpleName()); // Python says that it does not know this one
  }

  private static ObjectNode added(TableChange.AddColumn one) {
    ObjectNode node = typed(on("add-column", one), one.dataType());
    node.put("nullable", one.isNullable()).put("comment", one.comment());
    if (one.defaultValue() != null) {
      node.put("default", one.defaultValue().getSql());
    }
    return one.position() == null ? node : placed(node, one.position());
  }

  private static ObjectNode placed(ObjectNode node, TableChange.ColumnPosition position) {
    return position instanceof TableChange.After after
        ? node.put("after", after.column())
        : node.put("first", true);
  }

  private static ObjectNode typed(ObjectNode node, org.apache.spark.sql.types.DataType type) {
    node.set("type", PythonBridge.parsed(type.json()));
    return node;
  }

  private static ObjectNode on(String what, TableChange.ColumnChange change) {
    ObjectNode node = doing(what);
    node.set("column", PythonBridge.names(change.fieldNames()));
    return node;
  }

  private static ObjectNode doing(String what) {
    return PythonBridge.object().put("do", what);
  }
}
