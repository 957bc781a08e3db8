package sealberg.catalog;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Iceberg's partition transforms on Spark's own values.
 *
 * <pre>
 *   identity  v                         years   whole years since 1970      from a date or a timestamp,
 *   bucket    murmur3(v) mod n          months  whole months since 1970-01  which are days and microseconds
 *   truncate  v - v mod n, first n      days    days since 1970-01-01
 *   void      null                      hours   hours since 1970-01-01 00:00
 * </pre>
 *
 * The same code computes the partition of a row that is written, and implements the functions of
 * the catalog by which Spark clusters and sorts rows before they are written. Specification:
 * https://iceberg.apache.org/spec/
 */
public final class PartitionTransforms {
  private static final List<String> FUNCTIONS =
      List.of("bucket", "truncate", "years", "months", "days", "hours");
  private static final long HOUR = 3_600_000_000L;

  private PartitionTransforms() {}

  public static Object apply(String transform, int width, DataType type, Object value) {
    if (value == null || transform.equals("void")) {
      return null;
    }
    switch (transform) {
      case "identity":
        return copied(value);
      case "bucket":
        return (hash(value) & Integer.MAX_VALUE) % width;
      case "truncate":
        return truncated(width, value);
      default:
        return since1970(transform, type, (Number) value);
    }
  }

  /** A copy: the memory of a row's values is reused for the next row. */
  private static Object copied(Object value) {
    return value instanceof UTF8String text ? text.copy() : value;
  }

  private static int hash(Object value) {
    if (value instanceof Integer || value instanceof Long) {
      return Murmur3_x86_32.hashLong(((Number) value).longValue(), 0);
    }
    if (value instanceof UTF8String text) {
      return Murmur3_x86_32.hashUnsafeBytes2(
          text.getBaseObject(), text.getBaseOffset(), text.numBytes(), 0);
    }
    byte[] bytes =
        value instanceof Decimal decimal ? unscaled(decimal).toByteArray() : (byte[]) value;
    return Murmur3_x86_32.hashUnsafeBytes2(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, 0);
  }

  private static Object truncated(int width, Object value) {
    if (value instanceof Integer number) {
      return number - Math.floorMod(number, width);
    }
    if (value instanceof Long number) {
      return number - Math.floorMod(number, (long) width);
    }
    if (value instanceof UTF8String text) {
      return text.substring(0, width).copy();
    }
    if (value instanceof Decimal decimal) {
      BigInteger unscaled = unscaled(decimal);
      BigInteger kept = unscaled.subtract(unscaled.mod(BigInteger.valueOf(width)));
      return Decimal.apply(
          new BigDecimal(kept, decimal.scale()), decimal.precision(), decimal.scale());
    }
    byte[] bytes = (byte[]) value;
    return Arrays.copyOf(bytes, Math.min(width, bytes.length));
  }

  private static BigInteger unscaled(Decimal decimal) {
    return decimal.toJavaBigDecimal().unscaledValue();
  }

  private static int since1970(String unit, DataType type, Number value) {
    boolean isDate = type instanceof DateType;
    if (unit.equals("hours")) {
      return (int) Math.floorDiv(value.longValue(), HOUR);
    }
    long days = isDate ? value.longValue() : Math.floorDiv(value.longValue(), 24 * HOUR);
    LocalDate date = LocalDate.ofEpochDay(days);
    switch (unit) {
      case "years":
        return date.getYear() - 1970;
      case "months":
        return (date.getYear() - 1970) * 12 + date.getMonthValue() - 1;
      default:
        return (int) days;
    }
  }

  // -- as functions of the catalog --------------------------------------------------------------

  static Identifier[] identifiers(String[] namespace) {
    return FUNCTIONS.stream()
        .map(name -> Identifier.of(namespace, name))
        .toArray(Identifier[]::new);
  }

  static UnboundFunction function(String name) {
    String known = name.toLowerCase(Locale.ROOT);
    return FUNCTIONS.contains(known) ? new Unbound(known) : null;
  }

  private record Unbound(String name) implements UnboundFunction {
    @Override
    public BoundFunction bind(StructType input) {
      boolean hasWidth = name.equals("bucket") || name.equals("truncate");
      if (input.length() != (hasWidth ? 2 : 1)) {
        throw new UnsupportedOperationException(
            name
                + " was called with "
                + input.length()
                + " arguments, expected "
                + (hasWidth ? "a number and a column" : "one column"));
      }
      DataType type = input.apply(hasWidth ? 1 : 0).dataType();
      if (type instanceof ByteType || type instanceof ShortType) {
        type = DataTypes.IntegerType; // Spark casts bytes and shorts to int
      }
      if (!takes(type)) {
        throw new UnsupportedOperationException(
            name + " does not support the type " + type.catalogString());
      }
      return new Bound(name, hasWidth, type);
    }

    private boolean takes(DataType type) {
      boolean isTimestamp = type instanceof TimestampType || type instanceof TimestampNTZType;
      boolean isDate = type instanceof DateType;
      boolean isPlain =
          type instanceof IntegerType
              || type instanceof LongType
              || type instanceof DecimalType
              || type instanceof StringType
              || type instanceof BinaryType;
      switch (name) {
        case "bucket":
          return isPlain || isDate || isTimestamp;
        case "truncate":
          return isPlain;
        case "hours":
          return isTimestamp;
        default:
          return isDate || isTimestamp;
      }
    }

    @Override
    public String description() {
      return "Iceberg's partition transform " + name;
    }
  }

  private record Bound(String name, boolean hasWidth, DataType type)
      implements ScalarFunction<Object> {
    @Override
    public DataType[] inputTypes() {
      return hasWidth ? new DataType[] {DataTypes.IntegerType, type} : new DataType[] {type};
    }

    @Override
    public DataType resultType() {
      if (name.equals("days")) {
        return DataTypes.DateType; // as in Iceberg Java; inside Spark, a date is a number of days
      }
      return name.equals("truncate") ? type : DataTypes.IntegerType;
    }

    @Override
    public String canonicalName() {
      return "sealberg." + name + "(" + type.catalogString() + ")";
    }

    @Override
    public Object produceResult(InternalRow row) {
      int at = hasWidth ? 1 : 0;
      if (hasWidth && row.getInt(0) < 1) {
        throw new IllegalArgumentException(
            "the width of " + name + " must be above zero, found " + row.getInt(0));
      }
      return PartitionTransforms.apply(
          name, hasWidth ? row.getInt(0) : 0, type, row.isNullAt(at) ? null : row.get(at, type));
    }
  }
}
