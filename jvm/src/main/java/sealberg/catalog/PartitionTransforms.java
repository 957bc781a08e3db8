package sealberg.catalog;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
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
 * The same code computes the partition of a row that is written, and implements the {@link
 * Functions} of the catalog by which Spark clusters and sorts rows before they are written.
 * Specification: https://iceberg.apache.org/spec/
 */
public final class PartitionTransforms {
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
    if (value instanceof Byte number) {
      return (byte) (number - Math.floorMod(number, width));
    }
    if (value instanceof Short number) {
      return (short) (number - Math.floorMod(number, width));
    }
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
}
