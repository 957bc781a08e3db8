package sealberg.read;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
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
import sealberg.bridge.ScanMessages.Aggregate;
import sealberg.bridge.ScanMessages.AggregateFunction;
import sealberg.bridge.ScanMessages.AggregateRequest;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;

/** Aggregates of a whole table that Python computes from metadata: one row, without a job. */
record AggregateScan(StructType readSchema, InternalRow[] rows) implements LocalScan {

  /** The scan, or null if Spark has to read the rows. */
  static AggregateScan of(EncryptedTable table, Aggregation aggregation) {
    if (aggregation.groupByExpressions().length > 0) {
      return null;
    }
    List<Aggregate> aggregates = new ArrayList<>();
    StructType schema = new StructType();
    for (AggregateFunc function : aggregation.aggregateExpressions()) {
      Aggregate aggregate = message(function);
      if (aggregate == null) {
        return null;
      }
      aggregates.add(aggregate);
      boolean bound = function instanceof Min || function instanceof Max;
      DataType type =
          bound ? table.schema().apply(aggregate.column()).dataType() : DataTypes.LongType;
      schema = schema.add(function.describe(), type);
    }
    List<Object> values = table.ask(new AggregateRequest(table.handle(), aggregates)).values();
    return values == null
        ? null
        : new AggregateScan(schema, new InternalRow[] {row(schema, values)});
  }

  private static Aggregate message(AggregateFunc function) {
    if (function instanceof CountStar) {
      return new Aggregate(AggregateFunction.COUNT_ALL, null);
    }
    if (function instanceof Count count && !count.isDistinct()) {
      return message(AggregateFunction.COUNT, count.column());
    }
    if (function instanceof Min min) {
      return message(AggregateFunction.MIN, min.column());
    }
    return function instanceof Max max ? message(AggregateFunction.MAX, max.column()) : null;
  }

  private static Aggregate message(AggregateFunction function, Expression of) {
    boolean isColumn =
        of instanceof NamedReference name
            && name.fieldNames().length == 1
            && !MetadataColumns.contains(name.fieldNames()[0]);
    return isColumn ? new Aggregate(function, ((NamedReference) of).fieldNames()[0]) : null;
  }

  private static InternalRow row(StructType schema, List<Object> values) {
    Object[] row = new Object[schema.size()];
    for (int i = 0; i < row.length; i++) {
      Object value = values.get(i);
      DataType type = schema.apply(i).dataType();
      if (value == null) {
        row[i] = null;
      } else if (type instanceof DecimalType decimal) {
        row[i] =
            Decimal.apply(new BigDecimal((String) value), decimal.precision(), decimal.scale());
      } else if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
        row[i] = ((Number) value).intValue();
      } else {
        row[i] = ((Number) value).longValue();
      }
    }
    return new GenericInternalRow(row);
  }
}
