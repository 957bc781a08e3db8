package sealberg.catalog;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.DataType;

/** A value of a row. */
public final class RowValue {
  private RowValue() {}

  /**
   * Null where the row has no value. The method `get` of rows of a batch returns 0 or false there,
   * and knows no times of day.
   */
  public static Object of(SpecializedGetters row, int ordinal, DataType type) {
    return InternalRow.getAccessor(type, true).apply(row, ordinal);
  }
}
