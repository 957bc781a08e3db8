package sealberg.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import sealberg.bridge.MessageCodec;

/**
 * Rows that Python has computed, of a metadata table or of a procedure, for Spark.
 *
 * <p>Python's {@code arrow_json} writes the values.
 */
public final class JsonRows {
  private JsonRows() {}

  /** A scan of these rows, which needs no task. */
  public static LocalScan scan(StructType schema, List<List<JsonNode>> rows) {
    return new LocalScan() {
      @Override
      public StructType readSchema() {
        return schema;
      }

      @Override
      public InternalRow[] rows() {
        return rows.stream().map(row -> row(row, schema)).toArray(InternalRow[]::new);
      }
    };
  }

  public static InternalRow row(List<JsonNode> values, StructType columns) {
    Object[] row = new Object[columns.length()];
    for (int i = 0; i < row.length; i++) {
      row[i] = value(values.get(i), columns.apply(i).dataType());
    }
    return new GenericInternalRow(row);
  }

  /** Converts a value from the JSON that arrow_json.py in Python writes. */
  private static Object value(JsonNode value, DataType type) {
    if (value.isNull()) {
      return null;
    }
    if (type instanceof StructType struct) {
      List<JsonNode> values = new ArrayList<>();
      value.forEach(values::add);
      return row(values, struct);
    }
    if (type instanceof ArrayType array) {
      return array(value, array.elementType());
    }
    if (type instanceof MapType map) {
      ArrayNode keys = MessageCodec.JSON.createArrayNode();
      ArrayNode values = MessageCodec.JSON.createArrayNode();
      value.forEach(
          pair -> {
            keys.add(pair.get(0));
            values.add(pair.get(1));
          });
      return new ArrayBasedMapData(array(keys, map.keyType()), array(values, map.valueType()));
    }
    return type instanceof DecimalType decimal
        ? Decimal.apply(new BigDecimal(value.asText()), decimal.precision(), decimal.scale())
        : simple(value, type);
  }

  private static ArrayData array(JsonNode values, DataType type) {
    Object[] array = new Object[values.size()];
    for (int i = 0; i < array.length; i++) {
      array[i] = value(values.get(i), type);
    }
    return new GenericArrayData(array);
  }

  private static Object simple(JsonNode value, DataType type) {
    if (type.typeName().startsWith("time(")) {
      return value.asLong();
    }
    switch (type.typeName()) {
      case "integer":
      case "date":
        return value.asInt();
      case "long":
      case "timestamp":
      case "timestamp_ntz":
        return value.asLong();
      case "boolean":
        return value.asBoolean();
      case "float":
        return (float) number(value);
      case "double":
        return number(value);
      case "binary":
        return Base64.getDecoder().decode(value.asText());
      default:
        return UTF8String.fromString(value.asText());
    }
  }

  /** Python writes inf, -inf and nan as strings. */
  private static double number(JsonNode value) {
    switch (value.asText()) {
      case "inf":
        return Double.POSITIVE_INFINITY;
      case "-inf":
        return Double.NEGATIVE_INFINITY;
      case "nan":
        return Double.NaN;
      default:
        return value.asDouble();
    }
  }
}
