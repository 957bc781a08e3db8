package sealberg.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringStartsWith;
import sealberg.bridge.PythonBridge;

/**
 * Spark's filters as JSON: {"op": "and", "left": ..., "right": ...}, {"op": "lt", "column": "a",
 * "value": 3}.
 *
 * <p>Dates are days, timestamps are microseconds, decimals are {"decimal": "1.50"}. What Python
 * would not understand becomes null, and the whole filter with it: it is then evaluated by Spark
 * only.
 */
public final class FilterJson {
  private FilterJson() {}

  /** Whether Python understands all of these. */
  public static boolean understands(Filter[] filters) {
    return Arrays.stream(filters).allMatch(filter -> described(filter) != null);
  }

  /** Those of them that Python understands. */
  public static ArrayNode described(Filter[] filters) {
    ArrayNode list = PythonBridge.JSON.createArrayNode();
    for (Filter filter : filters) {
      JsonNode one = described(filter);
      if (one != null) {
        list.add(one);
      }
    }
    return list;
  }

  static JsonNode described(Filter filter) {
    if (filter instanceof And one) {
      return both("and", one.left(), one.right());
    }
    if (filter instanceof Or one) {
      return both("or", one.left(), one.right());
    }
    if (filter instanceof Not one) {
      JsonNode child = described(one.child());
      return child == null ? null : op("not").set("child", child);
    }
    if (filter instanceof IsNull one) {
      return op("is-null").put("column", one.attribute());
    }
    if (filter instanceof IsNotNull one) {
      return op("not-null").put("column", one.attribute());
    }
    if (filter instanceof In one) {
      return in(one);
    }
    if (filter instanceof AlwaysTrue) {
      return op("true");
    }
    return compared(filter);
  }

  private static JsonNode compared(Filter filter) {
    if (filter instanceof EqualTo one) {
      return compare("eq", one.attribute(), one.value());
    }
    if (filter instanceof EqualNullSafe one) {
      return compare("eq-null-safe", one.attribute(), one.value());
    }
    if (filter instanceof LessThan one) {
      return compare("lt", one.attribute(), one.value());
    }
    if (filter instanceof LessThanOrEqual one) {
      return compare("lteq", one.attribute(), one.value());
    }
    if (filter instanceof GreaterThan one) {
      return compare("gt", one.attribute(), one.value());
    }
    if (filter instanceof GreaterThanOrEqual one) {
      return compare("gteq", one.attribute(), one.value());
    }
    if (filter instanceof StringStartsWith one) {
      return compare("starts-with", one.attribute(), one.value());
    }
    return null;
  }

  private static JsonNode both(String op, Filter left, Filter right) {
    JsonNode one = described(left);
    JsonNode other = described(right);
    if (one == null || other == null) {
      return null;
    }
    ObjectNode node = op(op);
    node.set("left", one);
    node.set("right", other);
    return node;
  }

  private static JsonNode in(In filter) {
    ObjectNode node = op("in").put("column", filter.attribute());
    ArrayNode values = node.putArray("values");
    for (Object one : filter.values()) {
      JsonNode value = value(one);
      if (value == null) {
        return null;
      }
      values.add(value);
    }
    return node;
  }

  private static JsonNode compare(String op, String column, Object given) {
    JsonNode value = value(given);
    return value == null ? null : op(op).put("column", column).set("value", value);
  }

  private static JsonNode value(Object value) {
    if (value instanceof String || value instanceof Boolean) {
      return PythonBridge.JSON.valueToTree(value);
    }
    if (value instanceof Byte
        || value instanceof Short
        || value instanceof Integer
        || value instanceof Long) {
      return PythonBridge.JSON.valueToTree(((Number) value).longValue());
    }
    if (value instanceof Float || value instanceof Double) {
      double number = ((Number) value).doubleValue();
      return Double.isNaN(number) || Double.isInfinite(number)
          ? null
          : PythonBridge.JSON.valueToTree(number);
    }
    if (value instanceof BigDecimal decimal) {
      return PythonBridge.object().put("decimal", decimal.toPlainString());
    }
    if (value instanceof java.sql.Date date) {
      return PythonBridge.JSON.valueToTree((long) DateTimeUtils.fromJavaDate(date));
    }
    if (value instanceof LocalDate date) {
      return PythonBridge.JSON.valueToTree(date.toEpochDay());
    }
    if (value instanceof Timestamp timestamp) {
      return PythonBridge.JSON.valueToTree(DateTimeUtils.fromJavaTimestamp(timestamp));
    }
    // Spark's own conversions: those of java.time count nanoseconds, which end in the year 2262.
    if (value instanceof Instant instant) {
      return PythonBridge.JSON.valueToTree(DateTimeUtils.instantToMicros(instant));
    }
    return value instanceof LocalDateTime local
        ? PythonBridge.JSON.valueToTree(DateTimeUtils.localDateTimeToMicros(local))
        : null;
  }

  private static ObjectNode op(String op) {
    return PythonBridge.object().put("op", op);
  }
}
