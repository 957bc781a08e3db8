package sealberg.read;

import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;
import org.roaringbitmap.RoaringBitmap;

/**
 * Views of Spark's column vectors: selected rows, counted positions, deleted rows, inherited
 * numbers in the place of nulls, and UUIDs as text.
 */
final class ColumnViews {
  private ColumnViews() {}

  /**
   * Delegates to a column. Spark's reader owns that column and reuses it: a view never closes it.
   */
  abstract static class View extends ColumnVector {
    final ColumnVector in;

    View(ColumnVector in, DataType type) {
      super(type);
      this.in = in;
    }

    int at(int row) {
      return row;
    }

    @Override
    public void close() {}

    @Override
    public void closeIfFreeable() {}

    @Override
    public boolean hasNull() {
      return in.hasNull();
    }

    @Override
    public int numNulls() {
      return in.numNulls();
    }

    @Override
    public boolean isNullAt(int row) {
      return in.isNullAt(at(row));
    }

    @Override
    public boolean getBoolean(int row) {
      return in.getBoolean(at(row));
    }

    @Override
    public byte getByte(int row) {
      return in.getByte(at(row));
    }

    @Override
    public short getShort(int row) {
      return in.getShort(at(row));
    }

    @Override
    public int getInt(int row) {
      return in.getInt(at(row));
    }

    @Override
    public long getLong(int row) {
      return in.getLong(at(row));
    }

    @Override
    public float getFloat(int row) {
      return in.getFloat(at(row));
    }

    @Override
    public double getDouble(int row) {
      return in.getDouble(at(row));
    }

    @Override
    public ColumnarArray getArray(int row) {
      return in.getArray(at(row));
    }

    @Override
    public ColumnarMap getMap(int row) {
      return in.getMap(at(row));
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      return in.getDecimal(at(row), precision, scale);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return in.getUTF8String(at(row));
    }

    @Override
    public byte[] getBinary(int row) {
      return in.getBinary(at(row));
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return in.getChild(ordinal);
    }
  }

  /**
   * Some rows of a column, by row number. The methods that a query's loops call most are
   * overridden, which saves a virtual call for each value.
   */
  static final class SelectedRows extends View {
    private final int[] rows;
    private final boolean nulls;

    SelectedRows(ColumnVector in, int[] rows) {
      super(in, in.dataType());
      this.rows = rows;
      this.nulls = in.hasNull();
    }

    @Override
    int at(int row) {
      return rows[row];
    }

    @Override
    public boolean isNullAt(int row) {
      return nulls && in.isNullAt(rows[row]);
    }

    @Override
    public boolean getBoolean(int row) {
      return in.getBoolean(rows[row]);
    }

    @Override
    public int getInt(int row) {
      return in.getInt(rows[row]);
    }

    @Override
    public long getLong(int row) {
      return in.getLong(rows[row]);
    }

    @Override
    public double getDouble(int row) {
      return in.getDouble(rows[row]);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return in.getUTF8String(rows[row]);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return new SelectedRows(
          in.getChild(ordinal), rows); // of a struct, whose rows are its own rows
    }
  }

  /** The positions of rows in their file, counted from the first row of a batch. */
  static final class RowPositions extends View {
    private final long first;

    RowPositions(long first) {
      super(null, DataTypes.LongType);
      this.first = first;
    }

    @Override
    public boolean hasNull() {
      return false;
    }

    @Override
    public int numNulls() {
      return 0;
    }

    @Override
    public boolean isNullAt(int row) {
      return false;
    }

    @Override
    public long getLong(int row) {
      return first + row;
    }
  }

  /** Whether the rows at these positions are deleted. */
  static final class DeletedRows extends View {
    private final RoaringBitmap deleted;

    DeletedRows(ColumnVector positions, RoaringBitmap deleted) {
      super(positions, DataTypes.BooleanType);
      this.deleted = deleted;
    }

    @Override
    public boolean getBoolean(int row) {
      return deleted.contains((int) in.getLong(row));
    }
  }

  /**
   * A stored number, or where that is null a number that the row inherits from its file: the same
   * for all rows, or plus the position of the row.
   */
  static final class InheritedLong extends View {
    private final Long inherited;
    private final ColumnVector plus;

    InheritedLong(ColumnVector stored, Long inherited, ColumnVector plus) {
      super(stored, DataTypes.LongType);
      this.inherited = inherited;
      this.plus = plus;
    }

    @Override
    public boolean hasNull() {
      return inherited == null && in.hasNull();
    }

    @Override
    public int numNulls() {
      return inherited == null ? in.numNulls() : 0;
    }

    @Override
    public boolean isNullAt(int row) {
      return inherited == null && in.isNullAt(row);
    }

    @Override
    public long getLong(int row) {
      if (!in.isNullAt(row)) {
        return in.getLong(row);
      }
      return inherited + (plus == null ? 0 : plus.getLong(row));
    }
  }

  /** The text form of UUIDs that are stored as 16 bytes. */
  static final class UuidText extends View {
    UuidText(ColumnVector stored) {
      super(stored, DataTypes.StringType);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return in.isNullAt(row) ? null : uuid(in.getBinary(row));
    }
  }

  static UTF8String uuid(byte[] bytes) {
    ByteBuffer buffer = ByteBuffer.wrap(bytes);
    return UTF8String.fromString(new UUID(buffer.getLong(), buffer.getLong()).toString());
  }
}
