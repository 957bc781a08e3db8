package sealberg.read;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.parquet.column.Dictionary;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.io.api.Binary;
import org.apache.spark.sql.execution.datasources.parquet.ParquetDictionary;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** Columns of Spark's reader, seen without deleted rows, with inherited values, and as text. */
class ColumnViewsTest {
  private static WritableColumnVector longs(Long... values) {
    WritableColumnVector column = new OnHeapColumnVector(values.length, DataTypes.LongType);
    for (int row = 0; row < values.length; row++) {
      if (values[row] == null) {
        column.putNull(row);
      } else {
        column.putLong(row, values[row]);
      }
    }
    return column;
  }

  @Test
  void rowsThatAreLeftAreRenumbered() {
    ColumnVector view = new ColumnViews.SelectedRows(longs(10L, null, 30L, 40L), new int[] {1, 3});
    assertTrue(view.isNullAt(0));
    assertFalse(view.isNullAt(1));
    assertEquals(40, view.getLong(1));
    ColumnVector whole = new ColumnViews.SelectedRows(longs(10L, 20L), new int[] {1});
    assertFalse(whole.hasNull());
    assertEquals(20, whole.getLong(0));
  }

  @Test
  void aStructIsRenumberedWithItsFields() {
    StructType type = new StructType().add("a", "long").add("b", "string");
    WritableColumnVector struct = new OnHeapColumnVector(3, type);
    for (int row = 0; row < 3; row++) {
      struct.getChild(0).putLong(row, row * 100L);
      struct.getChild(1).putByteArray(row, ("text " + row).getBytes());
    }
    ColumnVector view = new ColumnViews.SelectedRows(struct, new int[] {2});
    assertEquals(200, view.getStruct(0).getLong(0));
    assertEquals("text 2", view.getStruct(0).getUTF8String(1).toString());
  }

  @Test
  void positionsAreCounted() {
    ColumnVector positions = new ColumnViews.RowPositions(1L << 33);
    assertFalse(positions.hasNull());
    assertEquals((1L << 33) + 5, positions.getLong(5));
  }

  @Test
  void aRowIdIsTheStoredOneOrElseTheFirstPlusThePosition() {
    ColumnVector stored = longs(null, 7L, null);
    ColumnVector ids =
        new ColumnViews.InheritedLong(stored, 1000L, new ColumnViews.RowPositions(40));
    assertFalse(ids.hasNull());
    assertEquals(1040, ids.getLong(0));
    assertEquals(7, ids.getLong(1));
    assertEquals(1042, ids.getLong(2));
    ColumnVector sequence = new ColumnViews.InheritedLong(stored, 3L, null);
    assertEquals(3, sequence.getLong(2));
    ColumnVector without = new ColumnViews.InheritedLong(stored, null, null);
    assertTrue(without.isNullAt(0));
    assertFalse(without.isNullAt(1));
    assertEquals(2, without.numNulls());
  }

  @Test
  void aUuidIsReadAsItsText() {
    UUID uuid = UUID.fromString("f79c3e09-677c-4bbd-a479-3f349cb785e7");
    WritableColumnVector bytes = new OnHeapColumnVector(2, DataTypes.BinaryType);
    bytes.putByteArray(
        0,
        ByteBuffer.allocate(16)
            .putLong(uuid.getMostSignificantBits())
            .putLong(uuid.getLeastSignificantBits())
            .array());
    bytes.putNull(1);
    ColumnVector view = new ColumnViews.UuidText(bytes);
    assertEquals(DataTypes.StringType, view.dataType());
    assertEquals(uuid.toString(), view.getUTF8String(0).toString());
    assertNull(view.getUTF8String(1));
  }

  private static final class Words extends Dictionary {
    private int decoded = 0;

    Words() {
      super(Encoding.PLAIN);
    }

    @Override
    public int getMaxId() {
      return 1;
    }

    @Override
    public Binary decodeToBinary(int id) {
      decoded++;
      return Binary.fromString(id == 0 ? "zero" : "one");
    }
  }

  private static WritableColumnVector coded(Words words, int... ids) {
    WritableColumnVector column = new OnHeapColumnVector(ids.length, DataTypes.StringType);
    WritableColumnVector numbers = column.reserveDictionaryIds(ids.length);
    for (int row = 0; row < ids.length; row++) {
      if (ids[row] < 0) {
        column.putNull(row);
      } else {
        numbers.putInt(row, ids[row]);
      }
    }
    column.setDictionary(new ParquetDictionary(words, false));
    return column;
  }

  @Test
  void aTextOfADictionaryIsDecodedOnce() {
    Words words = new Words();
    WritableColumnVector column = coded(words, 1, 0, -1, 1);
    DictionaryStringVector.Decoded known = DictionaryStringVector.Decoded.of(column, null);
    ColumnVector texts = new DictionaryStringVector(column, known);
    UTF8String first = texts.getUTF8String(0);
    assertEquals("one", first.toString());
    assertEquals("zero", texts.getUTF8String(1).toString());
    assertNull(texts.getUTF8String(2));
    assertSame(first, texts.getUTF8String(3));
    assertEquals(2, words.decoded);
    WritableColumnVector next = coded(words, 1);
    assertSame(known, DictionaryStringVector.Decoded.of(next, known));
    assertSame(first, new DictionaryStringVector(next, known).getUTF8String(0));
    assertNull(DictionaryStringVector.Decoded.of(longs(1L), known));
  }
}
