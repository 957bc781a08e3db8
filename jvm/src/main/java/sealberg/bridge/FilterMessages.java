package sealberg.bridge;

import java.util.List;

/**
 * Spark's filters: those that Python understands. Dates are days, timestamps are microseconds.
 * Python's {@code filters}.
 */
public final class FilterMessages {
  private FilterMessages() {}

  /** How a column is compared with a value. */
  public enum Comparison {
    EQ,
    EQ_NULL_SAFE,
    LT,
    LTEQ,
    GT,
    GTEQ,
    STARTS_WITH
  }

  public sealed interface FilterMessage extends Message {}

  @Message.Tag("true")
  public record TrueFilter() implements FilterMessage {}

  @Message.Tag("and")
  public record AndFilter(FilterMessage left, FilterMessage right) implements FilterMessage {}

  @Message.Tag("or")
  public record OrFilter(FilterMessage left, FilterMessage right) implements FilterMessage {}

  @Message.Tag("not")
  public record NotFilter(FilterMessage child) implements FilterMessage {}

  @Message.Tag("is-null")
  public record IsNullFilter(String column) implements FilterMessage {}

  @Message.Tag("not-null")
  public record NotNullFilter(String column) implements FilterMessage {}

  @Message.Tag("in")
  public record InFilter(String column, List<Object> values) implements FilterMessage {}

  @Message.Tag("compare")
  public record CompareFilter(Comparison op, String column, Object value)
      implements FilterMessage {}

  /**
   * A predicate on a transform of the column, such as bucket(16, id) = 3. Only procedures have it.
   *
   * @param transform in Iceberg's words, such as bucket[16] or day
   */
  @Message.Tag("transform")
  public record TransformFilter(String transform, FilterMessage predicate)
      implements FilterMessage {}
}
