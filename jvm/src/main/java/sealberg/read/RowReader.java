package sealberg.read;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import sealberg.catalog.MetadataColumns;
import sealberg.catalog.RowValue;
import sealberg.worker.PythonFileReader;

/** The rows of a task one by one, for columns that Spark's reader does not return in batches. */
final class RowReader extends FileSplitReader<InternalRow> {
  private InternalRow row;

  RowReader(ReaderFactory factory, FileSplit[] files) {
    super(factory, files);
  }

  @Override
  public InternalRow get() {
    return row;
  }

  @Override
  java.util.Iterator<?> inTurn(PythonFileReader batches) {
    return batches.rows();
  }

  @Override
  boolean given(Object made) {
    row = (InternalRow) made;
    return true;
  }

  @Override
  boolean take(Object read) {
    InternalRow in = (InternalRow) read;
    long position = indexed ? in.getLong(factory.indexAt()) : nextPosition++;
    boolean isDeleted = deleted != null && deleted.contains((int) position);
    if (isDeleted && !showsDeleted) {
      return false;
    }
    Object[] out = new Object[factory.required().length()];
    int ordinal = 0;
    for (int i = 0; i < out.length; i++) {
      switch (factory.required().apply(i).name()) {
        case MetadataColumns.FILE -> out[i] = UTF8String.fromString(file.location());
        case MetadataColumns.POS -> out[i] = position;
        case MetadataColumns.SPEC_ID -> out[i] = file.specId();
        case MetadataColumns.PARTITION -> out[i] = file.partition();
        case MetadataColumns.DELETED -> out[i] = isDeleted;
        case MetadataColumns.ROW_ID ->
            out[i] =
                orElse(
                    in, ordinal++, file.firstRowId() == null ? null : file.firstRowId() + position);
        case MetadataColumns.LAST_UPDATED ->
            out[i] =
                orElse(in, ordinal++, file.firstRowId() == null ? null : file.sequenceNumber());
        default -> {
          DataType type = factory.stored().apply(ordinal).dataType();
          Object value = RowValue.of(in, ordinal++, type);
          boolean uuid = value != null && ReaderFactory.isUuid(factory.required().apply(i), type);
          out[i] = uuid ? ColumnViews.uuid((byte[]) value) : value;
        }
      }
    }
    row = new GenericInternalRow(out);
    return true;
  }

  private static Object orElse(InternalRow in, int ordinal, Long inherited) {
    Object stored = RowValue.of(in, ordinal, DataTypes.LongType);
    return stored == null ? inherited : stored;
  }
}
