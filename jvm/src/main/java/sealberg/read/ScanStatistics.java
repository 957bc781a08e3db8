package sealberg.read;

import java.math.BigDecimal;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.ScanMessages.ColumnEstimate;
import sealberg.bridge.ScanMessages.ScanEstimate;

/**
 * What Spark's optimiser hears of a scan.
 *
 * <p>Its text shows no value of a column: plans and event logs print statistics.
 */
record ScanStatistics(
    OptionalLong numRows,
    OptionalLong sizeInBytes,
    Map<NamedReference, ColumnStatistics> columnStats)
    implements Statistics {

  /** {@code share} is the part of the bytes that the read columns take. */
  static ScanStatistics of(ScanEstimate estimate, double share, StructType required) {
    Map<NamedReference, ColumnStatistics> columns = new LinkedHashMap<>();
    for (ColumnEstimate column : estimate.columns()) {
      for (StructField field : required.fields()) {
        if (field.name().equals(column.name())) {
          columns.put(FieldReference.column(column.name()), of(column, field.dataType()));
        }
      }
    }
    long bytes = Math.max(1, (long) (estimate.sizeInBytes() * share));
    return new ScanStatistics(
        OptionalLong.of(estimate.recordCount()), OptionalLong.of(bytes), columns);
  }

  private static Column of(ColumnEstimate column, DataType type) {
    return new Column(
        optional(column.distinctCount()),
        optional(column.nullCount()),
        Optional.ofNullable(column.lower()).map(text -> value(text, type)),
        Optional.ofNullable(column.upper()).map(text -> value(text, type)));
  }

  private static OptionalLong optional(Long value) {
    return value == null ? OptionalLong.empty() : OptionalLong.of(value);
  }

  /** As Spark's rows hold the value. */
  static Object value(String text, DataType type) {
    if (type instanceof BooleanType) {
      return Boolean.valueOf(text);
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return Integer.valueOf(text);
    }
    if (type instanceof FloatType) {
      return Float.valueOf(text);
    }
    if (type instanceof DoubleType) {
      return Double.valueOf(text);
    }
    if (type instanceof DecimalType decimal) {
      return Decimal.apply(new BigDecimal(text), decimal.precision(), decimal.scale());
    }
    return Long.valueOf(text);
  }

  @Override
  public String toString() {
    return numRows.getAsLong() + " rows, statistics of " + columnStats.size() + " columns";
  }

  private record Column(
      OptionalLong distinctCount,
      OptionalLong nullCount,
      Optional<Object> min,
      Optional<Object> max)
      implements ColumnStatistics {
    @Override
    public String toString() {
      return "column statistics";
    }
  }
}
