package sealberg.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.PythonBridge;
import sealberg.catalog.EncryptedTable;

/** AggregateScan of a whole table that Python answers out of metadata: one row, and no job. */
record AggregateScan(StructType readSchema, InternalRow[] rows) implements LocalScan {

  /** The answer, or null where Spark has to read the rows. */
  static AggregateScan of(EncryptedTable table, Aggregation aggregation) {
    if (aggregation.groupByExpressions().length > 0) {
      return null;
    }
    ArrayNode wanted = PythonBridge.object().putArray("aggregates");
    StructType schema = new StructType();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      ObjectNode one = described(function);
      if (one == null) {
        return null;
      }
      wanted.add(one);
      boolean counts = one.get("kind").asText().startsWith("count");
      DataType type =
          counts ? DataTypes.LongType : table.schema().apply(one.get("column").asText()).dataType();
      schema = schema.add(function.describe(), type);
    }
    ObjectNode arguments = PythonBridge.object();
    arguments.set("aggregates", wanted);
    JsonNode values = table.ask("aggregate", arguments);
    return values.isNull()
        ? null
        : new AggregateScan(schema, new InternalRow[] {row(schema, values)});
  }

  private static ObjectNode described(AggregateFunc function) {
    if (function instanceof CountStar) {
      return PythonBridge.object().put("kind", "count-all");
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return described("count", count.column());
    }
    if (function instanceof Min min) {
      return described("min", min.column());
    }
    return function instanceof Max max ? described("max", max.column()) : null;
  }

  private static ObjectNode described(String kind, Expression of) {
    boolean column = of instanceof NamedReference name && name.fieldNames().length == 1;
    return column
        ? PythonBridge.object()
            .put("kind", kind)
            .put("column", ((NamedReference) of).fieldNames()[0])
        : null;
  }

  private static InternalRow row(StructType schema, JsonNode values) {
    Object[] row = new Object[schema.size()];
    for (int i = 0; i < row.length; i++) {
      JsonNode value = values.get(i);
      DataType type = schema.apply(i).dataType();
      if (value.isNull()) {
        row[i] = null;
      } else if (type instanceof DecimalType decimal) {
        row[i] =
            Decimal.apply(new BigDecimal(value.asText()), decimal.precision(), decimal.scale());
      } else if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
        row[i] = value.asInt();
      } else {
        row[i] = value.asLong();
      }
    }
    return new GenericInternalRow(row);
  }
}
