package sealberg;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Columns seen through something: without some of their rows, or with numbers in the place of nulls. */
final class Vectors {
  private Vectors() {}

  /** Some rows of a column, by their numbers. Spark's reader owns the column and will use it again. */
  static final class Mapped extends ColumnVector {
    private final ColumnVector in;
    private final int[] rows;

    Mapped(ColumnVector in, int[] rows) {
      super(in.dataType());
      this.in = in;
      this.rows = rows;
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
      return in.isNullAt(rows[row]);
    }

    @Override
    public boolean getBoolean(int row) {
      return in.getBoolean(rows[row]);
    }

    @Override
    public byte getByte(int row) {
      return in.getByte(rows[row]);
    }

    @Override
    public short getShort(int row) {
      return in.getShort(rows[row]);
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
    public float getFloat(int row) {
      return in.getFloat(rows[row]);
    }

    @Override
    public double getDouble(int row) {
      return in.getDouble(rows[row]);
    }

    @Override
    public ColumnarArray getArray(int row) {
      return in.getArray(rows[row]);
    }

    @Override
    public ColumnarMap getMap(int row) {
      return in.getMap(rows[row]);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      return in.getDecimal(rows[row], precision, scale);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return in.getUTF8String(rows[row]);
    }

    @Override
    public byte[] getBinary(int row) {
      return in.getBinary(rows[row]);
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return new Mapped(in.getChild(ordinal), rows);  // of a struct, whose rows are its own rows
    }
  }

  /** What is stored, or else a number that all rows inherit, to which the position of the row may be added. */
  static final class OrElse extends ColumnVector {
    private final ColumnVector stored;
    private final Long inherited;
    private final ColumnVector plus;

    OrElse(ColumnVector stored, Long inherited, ColumnVector plus) {
      super(DataTypes.LongType);
      this.stored = stored;
      this.inherited = inherited;
      this.plus = plus;
    }

    @Override
    public void close() {}

    @Override
    public void closeIfFreeable() {}

    @Override
    public boolean hasNull() {
      return inherited == null && stored.hasNull();
    }

    @Override
    public int numNulls() {
      return inherited == null ? stored.numNulls() : 0;
    }

    @Override
    public boolean isNullAt(int row) {
      return inherited == null && stored.isNullAt(row);
    }

    @Override
    public long getLong(int row) {
      if (!stored.isNullAt(row)) {
        return stored.getLong(row);
      }
      return inherited + (plus == null ? 0 : plus.getLong(row));
    }

    @Override
    public boolean getBoolean(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public byte getByte(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public short getShort(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public int getInt(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public float getFloat(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public double getDouble(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public ColumnarArray getArray(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public ColumnarMap getMap(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      throw new UnsupportedOperationException();
    }

    @Override
    public UTF8String getUTF8String(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public byte[] getBinary(int row) {
      throw new UnsupportedOperationException();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      throw new UnsupportedOperationException();
    }
  }
}
