package sealberg.procedure;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;

/** An argument of a procedure as JSON; timestamps are microseconds, maps have keys of strings. */
final class ArgumentJson {
  private static final JsonNodeFactory JSON = JsonNodeFactory.instance;

  private ArgumentJson() {}

  static JsonNode value(SpecializedGetters row, int at, DataType type) {
    if (row.isNullAt(at)) {
      return JSON.nullNode();
    }
    if (type instanceof ArrayType array) {
      return array(row.getArray(at), array.elementType());
    }
    if (type instanceof MapType map) {
      return object(row.getMap(at), map.valueType());
    }
    return switch (type.typeName()) {
      case "boolean" -> JSON.booleanNode(row.getBoolean(at));
      case "integer" -> JSON.numberNode(row.getInt(at));
      case "long", "timestamp" -> JSON.numberNode(row.getLong(at));
      case "double" -> JSON.numberNode(row.getDouble(at));
      case "string" -> JSON.textNode(row.getUTF8String(at).toString());
      default ->
          throw new IllegalStateException(
              "internal error: a parameter of a procedure has the type " + type.simpleString());
    };
  }

  private static ArrayNode array(ArrayData values, DataType type) {
    ArrayNode array = JSON.arrayNode();
    for (int i = 0; i < values.numElements(); i++) {
      array.add(value(values, i, type));
    }
    return array;
  }

  private static ObjectNode object(MapData map, DataType type) {
    ObjectNode object = JSON.objectNode();
    ArrayData keys = map.keyArray();
    for (int i = 0; i < map.numElements(); i++) {
      object.set(keys.getUTF8String(i).toString(), value(map.valueArray(), i, type));
    }
    return object;
  }
}
