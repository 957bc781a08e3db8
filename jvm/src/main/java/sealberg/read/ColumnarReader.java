package sealberg.read;

import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;
import org.roaringbitmap.PeekableIntIterator;
import sealberg.catalog.MetadataColumns;
import sealberg.worker.PythonFileReader;

/** The rows of a task in batches: views of Spark's columns without deleted rows. */
final class ColumnarReader extends FileSplitReader<ColumnarBatch> {
  private final DictionaryStringVector.Decoded[] dictionaries; // by column of the file
  private ColumnarBatch batch;

  ColumnarReader(ReaderFactory factory, FileSplit[] files) {
    super(factory, files);
    dictionaries = new DictionaryStringVector.Decoded[factory.stored().length()];
  }

  @Override
  public ColumnarBatch get() {
    return batch;
  }

  @Override
  java.util.Iterator<?> inTurn(PythonFileReader batches) {
    return batches;
  }

  @Override
  boolean given(Object made) {
    batch = (ColumnarBatch) made;
    return true;
  }

  @Override
  boolean take(Object read) {
    ColumnarBatch in = (ColumnarBatch) read;
    ColumnVector index =
        indexed
            ? in.column(factory.indexAt())
            : numbered ? new ColumnViews.RowPositions(nextPosition) : null;
    nextPosition += in.numRows();
    int[] live = deleted == null || showsDeleted ? null : live(index, in.numRows());
    ColumnVector[] out = new ColumnVector[factory.required().length()];
    int ordinal = 0;
    for (int i = 0; i < out.length; i++) {
      String name = factory.required().apply(i).name();
      boolean isStored = !MetadataColumns.isComputed(name);
      ColumnVector column =
          column(name, isStored ? stored(in, ordinal++) : null, index, in.numRows());
      out[i] = live == null ? column : new ColumnViews.SelectedRows(column, live);
    }
    batch = new ColumnarBatch(out, live == null ? in.numRows() : live.length);
    return batch.numRows() > 0;
  }

  private ColumnVector stored(ColumnarBatch in, int ordinal) {
    ColumnVector column = in.column(ordinal);
    dictionaries[ordinal] = DictionaryStringVector.Decoded.of(column, dictionaries[ordinal]);
    return dictionaries[ordinal] == null
        ? column
        : new DictionaryStringVector(column, dictionaries[ordinal]);
  }

  private ColumnVector column(String name, ColumnVector stored, ColumnVector index, int rows) {
    switch (name) {
      case MetadataColumns.FILE:
        ConstantColumnVector path = new ConstantColumnVector(rows, DataTypes.StringType);
        path.setUtf8String(UTF8String.fromString(file.location()));
        return path;
      case MetadataColumns.POS:
        return index;
      case MetadataColumns.SPEC_ID:
        ConstantColumnVector spec = new ConstantColumnVector(rows, DataTypes.IntegerType);
        if (file.specId() == null) {
          spec.setNull();
        } else {
          spec.setInt(file.specId());
        }
        return spec;
      case MetadataColumns.PARTITION:
        return partition((StructType) factory.required().apply(name).dataType(), rows);
      case MetadataColumns.DELETED:
        if (deleted != null) {
          return new ColumnViews.DeletedRows(index, deleted);
        }
        ConstantColumnVector none = new ConstantColumnVector(rows, DataTypes.BooleanType);
        none.setBoolean(false);
        return none;
      case MetadataColumns.ROW_ID:
        return new ColumnViews.InheritedLong(stored, file.firstRowId(), index);
      case MetadataColumns.LAST_UPDATED:
        return new ColumnViews.InheritedLong(
            stored, file.firstRowId() == null ? null : file.sequenceNumber(), null);
      default:
        return ReaderFactory.isUuid(factory.required().apply(name), stored.dataType())
            ? new ColumnViews.UuidText(stored)
            : stored;
    }
  }

  private ColumnVector partition(StructType type, int rows) {
    ConstantColumnVector partition = new ConstantColumnVector(rows, type);
    if (file.partition() == null) { // of a table that never had a partition field
      partition.setNull();
      return partition;
    }
    for (int i = 0; i < type.length(); i++) {
      ConstantColumnVector field = new ConstantColumnVector(rows, type.apply(i).dataType());
      ColumnVectorUtils.populate(field, file.partition(), i);
      partition.setChild(i, field);
    }
    return partition;
  }

  /** The numbers of the rows that are not deleted; null if no row is deleted. */
  private int[] live(ColumnVector index, int rows) {
    if (rows == 0) {
      return null;
    }
    long first = index.getLong(0);
    long last = index.getLong(rows - 1);
    int[] live = new int[rows];
    int count = 0;
    if (last - first == rows - 1) { // contiguous: walk the deleted positions, not the rows
      PeekableIntIterator dead = deleted.getIntIterator();
      dead.advanceIfNeeded((int) first);
      int row = 0;
      while (dead.hasNext() && Integer.toUnsignedLong(dead.peekNext()) <= last) {
        int stop = (int) (Integer.toUnsignedLong(dead.next()) - first);
        while (row < stop) {
          live[count++] = row++;
        }
        row++;
      }
      while (row < rows) {
        live[count++] = row++;
      }
    } else {
      for (int row = 0; row < rows; row++) {
        if (!deleted.contains((int) index.getLong(row))) {
          live[count++] = row;
        }
      }
    }
    return count == rows ? null : Arrays.copyOf(live, count);
  }
}
