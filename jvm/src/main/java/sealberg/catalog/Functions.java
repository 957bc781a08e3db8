package sealberg.catalog;

import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
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
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The functions of the catalog, in the namespace system: Iceberg's partition transforms, and the
 * version of Iceberg that the tables follow.
 *
 * <pre>
 *   SELECT prod.system.bucket(16, id), prod.system.days(at), prod.system.iceberg_version()
 * </pre>
 */
public final class Functions {
  private static final List<String> TRANSFORMS =
      List.of("bucket", "truncate", "years", "months", "days", "hours");
  private static final String VERSION = "iceberg_version";

  /** The release of Iceberg Java whose tables and statements the tests compare with. */
  private static final String ICEBERG = "1.12.0";

  private Functions() {}

  static Identifier[] identifiers(String[] namespace) {
    return Stream.concat(TRANSFORMS.stream(), Stream.of(VERSION))
        .map(name -> Identifier.of(namespace, name))
        .toArray(Identifier[]::new);
  }

  /** Null if there is no such function. */
  static UnboundFunction find(String name) {
    String known = name.toLowerCase(Locale.ROOT);
    if (known.equals(VERSION)) {
      return new UnboundVersion();
    }
    return TRANSFORMS.contains(known) ? new Unbound(known) : null;
  }

  /** Whether a function is a transform of these, and not one of another catalog with its name. */
  public static boolean isOurs(BoundFunction function) {
    return function instanceof Bound;
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
      if (hasWidth && !isWhole(input.apply(0).dataType())) {
        throw new UnsupportedOperationException(
            (name.equals("bucket")
                    ? "Expected number of buckets to be"
                    : "Expected truncation width to be")
                + " tinyint, shortint or int, found "
                + input.apply(0).dataType().catalogString());
      }
      DataType type = input.apply(hasWidth ? 1 : 0).dataType();
      if (isWhole(type) && !name.equals("truncate")) {
        type = DataTypes.IntegerType; // Spark casts bytes and shorts to int
      }
      if (!takes(type)) {
        throw new UnsupportedOperationException(
            name + " does not support the type " + type.catalogString());
      }
      return new Bound(name, hasWidth, type);
    }

    private static boolean isWhole(DataType type) {
      return type instanceof ByteType || type instanceof ShortType || type instanceof IntegerType;
    }

    private boolean takes(DataType type) {
      boolean isTimestamp = type instanceof TimestampType || type instanceof TimestampNTZType;
      boolean isDate = type instanceof DateType;
      boolean isPlain =
          isWhole(type)
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
          name, hasWidth ? row.getInt(0) : 0, type, RowValue.of(row, at, type));
    }
  }

  private record UnboundVersion() implements UnboundFunction {
    @Override
    public String name() {
      return VERSION;
    }

    @Override
    public BoundFunction bind(StructType input) {
      if (input.length() != 0) {
        throw new UnsupportedOperationException(
            VERSION + " was called with " + input.length() + " arguments, expected none");
      }
      return new Version();
    }

    @Override
    public String description() {
      return "the release of Iceberg Java that sealberg's tables and statements are compared with";
    }
  }

  private record Version() implements ScalarFunction<UTF8String> {
    @Override
    public String name() {
      return VERSION;
    }

    @Override
    public DataType[] inputTypes() {
      return new DataType[0];
    }

    @Override
    public DataType resultType() {
      return DataTypes.StringType;
    }

    @Override
    public boolean isResultNullable() {
      return false;
    }

    @Override
    public String canonicalName() {
      return "sealberg." + VERSION;
    }

    @Override
    public UTF8String produceResult(InternalRow row) {
      return UTF8String.fromString(ICEBERG);
    }
  }
}
