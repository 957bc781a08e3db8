package sealberg.read;

import java.math.BigDecimal;
import java.sql.Timestamp;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.BiFunction;
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
import sealberg.bridge.FilterMessages.AndFilter;
import sealberg.bridge.FilterMessages.CompareFilter;
import sealberg.bridge.FilterMessages.Comparison;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.FilterMessages.InFilter;
import sealberg.bridge.FilterMessages.IsNullFilter;
import sealberg.bridge.FilterMessages.NotFilter;
import sealberg.bridge.FilterMessages.NotNullFilter;
import sealberg.bridge.FilterMessages.OrFilter;
import sealberg.bridge.FilterMessages.TrueFilter;

/**
 * Converts Spark's filters to messages for Python. Dates are days, timestamps are microseconds.
 *
 * <p>A filter with an unsupported part becomes null: only Spark evaluates it.
 */
public final class FilterJson {
  private FilterJson() {}

  /** Whether all filters are supported. */
  public static boolean understands(Filter[] filters) {
    return Arrays.stream(filters).allMatch(filter -> message(filter) != null);
  }

  /** The supported filters. */
  public static List<FilterMessage> messages(Filter[] filters) {
    return Arrays.stream(filters).map(FilterJson::message).filter(Objects::nonNull).toList();
  }

  static FilterMessage message(Filter filter) {
    if (filter instanceof And and) {
      return both(and.left(), and.right(), AndFilter::new);
    }
    if (filter instanceof Or or) {
      return both(or.left(), or.right(), OrFilter::new);
    }
    if (filter instanceof Not not) {
      FilterMessage child = message(not.child());
      return child == null ? null : new NotFilter(child);
    }
    if (filter instanceof IsNull isNull) {
      return new IsNullFilter(isNull.attribute());
    }
    if (filter instanceof IsNotNull isNotNull) {
      return new NotNullFilter(isNotNull.attribute());
    }
    if (filter instanceof In in) {
      List<Object> values = new ArrayList<>();
      Arrays.stream(in.values()).map(FilterJson::value).forEach(values::add);
      return values.contains(null) ? null : new InFilter(in.attribute(), values);
    }
    return filter instanceof AlwaysTrue ? new TrueFilter() : comparison(filter);
  }

  private static FilterMessage comparison(Filter filter) {
    if (filter instanceof EqualTo equal) {
      return compare(Comparison.EQ, equal.attribute(), equal.value());
    }
    if (filter instanceof EqualNullSafe equal) {
      return compare(Comparison.EQ_NULL_SAFE, equal.attribute(), equal.value());
    }
    if (filter instanceof LessThan less) {
      return compare(Comparison.LT, less.attribute(), less.value());
    }
    if (filter instanceof LessThanOrEqual less) {
      return compare(Comparison.LTEQ, less.attribute(), less.value());
    }
    if (filter instanceof GreaterThan greater) {
      return compare(Comparison.GT, greater.attribute(), greater.value());
    }
    if (filter instanceof GreaterThanOrEqual greater) {
      return compare(Comparison.GTEQ, greater.attribute(), greater.value());
    }
    if (filter instanceof StringStartsWith starts) {
      return compare(Comparison.STARTS_WITH, starts.attribute(), starts.value());
    }
    return null;
  }

  private static FilterMessage both(
      Filter left, Filter right, BiFunction<FilterMessage, FilterMessage, FilterMessage> combine) {
    FilterMessage first = message(left);
    FilterMessage second = message(right);
    return first == null || second == null ? null : combine.apply(first, second);
  }

  private static FilterMessage compare(Comparison op, String column, Object given) {
    Object value = value(given);
    return value == null ? null : new CompareFilter(op, column, value);
  }

  private static Object value(Object value) {
    if (value instanceof String || value instanceof Boolean || value instanceof BigDecimal) {
      return value;
    }
    if (value instanceof Byte
        || value instanceof Short
        || value instanceof Integer
        || value instanceof Long) {
      return ((Number) value).longValue();
    }
    if (value instanceof Float || value instanceof Double) {
      double number = ((Number) value).doubleValue();
      return Double.isNaN(number) || Double.isInfinite(number) ? null : number;
    }
    if (value instanceof java.sql.Date date) {
      return (long) DateTimeUtils.fromJavaDate(date);
    }
    if (value instanceof LocalDate date) {
      return date.toEpochDay();
    }
    if (value instanceof Timestamp timestamp) {
      return DateTimeUtils.fromJavaTimestamp(timestamp);
    }
    // Spark's own conversions: those of java.time count nanoseconds, which overflow in the year
    // 2262.
    if (value instanceof Instant instant) {
      return DateTimeUtils.instantToMicros(instant);
    }
    return value instanceof LocalDateTime local
        ? (Object) DateTimeUtils.localDateTimeToMicros(local)
        : null;
  }
}
