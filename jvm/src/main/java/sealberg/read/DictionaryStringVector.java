package sealberg.read;

import java.lang.reflect.Field;
import org.apache.parquet.column.Dictionary;
import org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A dictionary-encoded string column that decodes each string once. Spark's own column decodes one
 * for every row.
 *
 * <pre>
 *   row ──> its id in the dictionary ──> the string of that id, decoded by Spark's column the first time
 * </pre>
 *
 * The dictionary of a column is a private field of Spark, read by reflection. Where that fails, the
 * column is used without this view.
 */
final class DictionaryStringVector extends ColumnViews.View {
  private static final Field OF_COLUMN = field(WritableColumnVector.class);
  private static final Field OF_SPARK = field(ParquetDictionary.class);

  private final WritableColumnVector numbers;
  private final Decoded decoded;
  private final boolean nulls;

  /** The decoded strings of one dictionary, which all batches of a row group share. */
  static final class Decoded {
    private final Dictionary dictionary;
    private final UTF8String[] texts;

    private Decoded(Dictionary dictionary) {
      this.dictionary = dictionary;
      this.texts = new UTF8String[dictionary.getMaxId() + 1];
    }

    /**
     * The strings for this column: {@code before} if the column has the same dictionary, null if it
     * has no dictionary.
     */
    static Decoded of(ColumnVector column, Decoded before) {
      boolean texts = column.dataType().equals(DataTypes.StringType);
      Dictionary dictionary =
          texts && column instanceof WritableColumnVector own && own.hasDictionary()
              ? dictionary(own)
              : null;
      if (dictionary == null) {
        return null;
      }
      return before != null && before.dictionary == dictionary ? before : new Decoded(dictionary);
    }
  }

  DictionaryStringVector(ColumnVector in, Decoded decoded) {
    super(in, in.dataType());
    this.numbers = ((WritableColumnVector) in).getDictionaryIds();
    this.decoded = decoded;
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
    UTF8String text = decoded.texts[number];
    if (text == null) {
      text = in.getUTF8String(row);
      decoded.texts[number] = text;
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
