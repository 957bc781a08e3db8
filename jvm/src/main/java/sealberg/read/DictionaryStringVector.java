package sealberg.read;

import java.lang.reflect.Field;
import org.apache.parquet.column.Dictionary;
import org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The texts of a column with a dictionary, each made once. Spark's own column makes a new one for
 * every row.
 *
 * <pre>
 *   row ──> its number in the dictionary ──> the text of that number, which Spark's column made the first time
 * </pre>
 *
 * Which dictionary a column has is a private matter of Spark's. Where it cannot be seen, columns
 * stay as they are.
 */
final class DictionaryStringVector extends ColumnViews.Seen {
  private static final Field OF_COLUMN = field(WritableColumnVector.class);
  private static final Field OF_SPARK = field(ParquetDictionary.class);

  private final WritableColumnVector numbers;
  private final Known known;
  private final boolean nulls;

  /** The texts of one dictionary: batch after batch has the same, until the next row group. */
  static final class Known {
    private final Dictionary dictionary;
    private final UTF8String[] texts;

    private Known(Dictionary dictionary) {
      this.dictionary = dictionary;
      this.texts = new UTF8String[dictionary.getMaxId() + 1];
    }

    /**
     * Of this column: those that are known already, if it has their dictionary; null if it has
     * none.
     */
    static Known of(ColumnVector column, Known before) {
      boolean texts = column.dataType().equals(DataTypes.StringType);
      Dictionary dictionary =
          texts && column instanceof WritableColumnVector own && own.hasDictionary()
              ? dictionary(own)
              : null;
      if (dictionary == null) {
        return null;
      }
      return before != null && before.dictionary == dictionary ? before : new Known(dictionary);
    }
  }

  DictionaryStringVector(ColumnVector in, Known known) {
    super(in, in.dataType());
    this.numbers = ((WritableColumnVector) in).getDictionaryIds();
    this.known = known;
    this.nulls = in.hasNull();
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls && in.isNullAt(row);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int number = numbers.getDictId(row);
    UTF8String text = known.texts[number];
    if (text == null) {
      text = in.getUTF8String(row);
      known.texts[number] = text;
    }
    return text;
  }

  private static Dictionary dictionary(WritableColumnVector column) {
    try {
      Object spark = OF_COLUMN == null || OF_SPARK == null ? null : OF_COLUMN.get(column);
      return spark instanceof ParquetDictionary ? (Dictionary) OF_SPARK.get(spark) : null;
    } catch (IllegalAccessException | ClassCastException error) {
      return null;
    }
  }

  private static Field field(Class<?> owner) {
    try {
      Field found = owner.getDeclaredField("dictionary");
      found.setAccessible(true);
      return found;
    } catch (ReflectiveOperationException | RuntimeException error) {
      return null;
    }
  }
}
