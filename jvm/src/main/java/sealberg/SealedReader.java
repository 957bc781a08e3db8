package sealberg;

import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's own Parquet reader, one file after the other, each under its own key.
 *
 * <pre>
 *   in the file, by field id:  a, b, _row_id, _last_updated_sequence_number
 *     1. the position of each row, where it is needed: counted, or told by Spark's reader where filters let it skip rows
 *     2. rows that are deleted fall out of the batch: the others are renumbered, not copied
 *     3. _file, _pos and the two above are made of what was stored and what Python knows of the file
 *   out:  what Spark asked for, in its order
 * </pre>
 */
final class SealedReader {
  private static final String INDEX = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();

  private SealedReader() {}

  /** Whether Spark's reader gives batches of these columns, or rows one by one. */
  static boolean columnar(StructType required, StructType known) {
    return new ParquetFileFormat().supportBatch(SparkSession.active(), stored(required, known).add(INDEX, "long"));
  }

  /**
   * Runs on the driver: makes Spark's reader functions, which are then sent to the tasks. What only positions and
   * deletes need, a function that tells positions and a configuration, is left out where it can be: both are large.
   */
  static Factory factory(
      StructType required, StructType known, List<Filter> filters, boolean deletes, boolean columnar) {
    StructType stored = stored(required, known);
    Set<String> asked = Set.of(required.fieldNames());
    boolean numbered = asked.contains(SealedTable.POS) || asked.contains(SealedTable.ROW_ID);
    boolean told = !filters.isEmpty() && (numbered || deletes);
    SparkSession spark = SparkSession.active();
    Reads plain = told && numbered ? null : reads(spark, stored, filters, columnar);
    Reads indexed = told ? reads(spark, stored.add(INDEX, "long"), filters, columnar) : null;
    Broadcast<SerializableConfiguration> conf =
        numbered || deletes ? Sent.conf(context(spark), configured(spark)) : null;
    return new Factory(conf, required, stored, plain, indexed, numbered, deletes, columnar);
  }

  /** What a file has of the columns that are asked for. */
  private static StructType stored(StructType required, StructType known) {
    List<StructField> inFile = new ArrayList<>();
    for (StructField field : required.fields()) {
      if (!field.name().equals(SealedTable.FILE) && !field.name().equals(SealedTable.POS)) {
        inFile.add(pruned(field, known.apply(field.name())));
      }
    }
    return new StructType(inFile.toArray(new StructField[0]));
  }

  /** Spark prunes nested columns by name; the ids and defaults to read them by are in `known`. */
  private static StructField pruned(StructField asked, StructField known) {
    return new StructField(known.name(), pruned(asked.dataType(), known.dataType()), known.nullable(), known.metadata());
  }

  private static DataType pruned(DataType asked, DataType known) {
    if (asked instanceof StructType some && known instanceof StructType all) {
      StructField[] fields = Arrays.stream(some.fields())
          .map(field -> pruned(field, all.apply(field.name())))
          .toArray(StructField[]::new);
      return new StructType(fields);
    }
    if (asked instanceof ArrayType some && known instanceof ArrayType all) {
      return new ArrayType(pruned(some.elementType(), all.elementType()), all.containsNull());
    }
    if (asked instanceof MapType some && known instanceof MapType all) {
      DataType key = pruned(some.keyType(), all.keyType());
      return new MapType(key, pruned(some.valueType(), all.valueType()), all.valueContainsNull());
    }
    return known;
  }

  private static Reads reads(
      SparkSession spark, StructType schema, List<Filter> filters, boolean columnar) {
    Configuration conf = configured(spark);
    conf.setBoolean("spark.sql.parquet.fieldId.read.enabled", true);
    java.util.Map<String, String> options = java.util.Map.of(
        "returning_batch", String.valueOf(columnar), "datetimeRebaseMode", "CORRECTED", "int96RebaseMode", "CORRECTED");
    // Before the function is made: that adds settings of its own to the configuration.
    Configuration own = new Configuration(conf);
    return Sent.once(
        context(spark), conf, List.of(schema, filters, columnar),
        () -> new Reads(
            new ParquetFileFormat().buildReaderWithPartitionValues(
                spark, schema, new StructType(), schema, CollectionConverters.asScala(filters).toSeq(),
                scala.collection.immutable.Map.from(CollectionConverters.asScala(options)), own)));
  }

  private static SparkContext context(SparkSession spark) {
    return ((org.apache.spark.sql.classic.SparkSession) spark).sparkContext();
  }

  private static Configuration configured(SparkSession spark) {
    Configuration conf = SealedFile.conf(spark);
    SealedFs.enable(conf);
    return conf;
  }

  /** Text to the query, bytes in the file: Python says so in the types that files are read with. */
  private static boolean isUuid(StructField asked, DataType stored) {
    return asked.dataType().equals(DataTypes.StringType) && stored.equals(DataTypes.BinaryType);
  }

  /** One of Spark's reader functions. */
  record Reads(Function1<PartitionedFile, Iterator<InternalRow>> function) implements Serializable {
    Iterator<?> open(SealedFile file) {
      PartitionedFile piece = new PartitionedFile(
          InternalRow.empty(), org.apache.spark.paths.SparkPath.fromPath(file.readPath()), file.start, file.length,
          new String[0], 0L, file.fileLength, scala.collection.immutable.Map$.MODULE$.<String, Object>empty());
      return SealedKeys.with(file, () -> function.apply(piece));
    }
  }

  /** `numbered` if the query asks where rows are. Without `indexed`, Spark's reader leaves no row out. */
  record Factory(
      Broadcast<SerializableConfiguration> conf, StructType required, StructType stored, Reads plain, Reads indexed,
      boolean numbered, boolean deletes, boolean columnar)
      implements PartitionReaderFactory {
    @Override
    public boolean supportColumnarReads(InputPartition partition) {
      return columnar;
    }

    @Override
    public PartitionReader<InternalRow> createReader(InputPartition partition) {
      return new Rows(this, ((SealedScan.Task) partition).files());
    }

    @Override
    public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
      return new Batches(this, ((SealedScan.Task) partition).files());
    }

    int indexAt() {
      return stored.length();
    }
  }

  /** What reading in batches and reading row by row share: files in turn, errors with the name of the file. */
  private abstract static class Files<T> implements PartitionReader<T> {
    final Factory factory;
    private final SealedFile[] files;
    private int next = 0;
    SealedFile file;
    private Iterator<?> values;
    private PythonRows whole;
    RoaringBitmap deleted;
    boolean numbered;  // the positions of rows are needed,
    boolean indexed;  // and Spark's reader tells them,
    long at;  // or they are counted: the next row is here
    private long end;  // and the last one before here

    Files(Factory factory, SealedFile[] files) {
      this.factory = factory;
      this.files = files;
    }

    @Override
    public boolean next() {
      try {
        while (true) {
          while (values != null && values.hasNext()) {
            if (whole != null ? given(values.next()) : take(values.next())) {
              return true;
            }
          }
          checkCount();
          if (next == files.length) {
            return false;
          }
          open(files[next++]);
        }
      } catch (Throwable error) {
        throw SealedKeys.told(file, error);
      }
    }

    private void open(SealedFile opened) throws IOException {
      file = opened;
      close();
      if (opened.python != null && opened.python.verb().equals("rows")) {
        whole = new PythonRows(opened, factory.required, factory.conf.value().value());
        values = CollectionConverters.asScala(inTurn(whole));
        return;
      }
      deleted = factory.deletes ? opened.deletedRows(factory.conf.value().value()) : null;
      numbered = factory.numbered || deleted != null;
      indexed = numbered && factory.indexed != null;
      if (numbered && !indexed) {
        SealedFile.Span rows = opened.rows(factory.conf.value().value());
        at = rows.first();
        end = rows.end();
      }
      values = (indexed ? factory.indexed : factory.plain).open(opened);
    }

    /** A wrong count would delete other rows than those that were meant. */
    private void checkCount() {
      if (values != null && whole == null && numbered && !indexed && at != end) {
        throw new SealedFileException(file + ": a row is at " + at + " that should be at " + end);
      }
    }

    /** False if no row is left of what was read. */
    abstract boolean take(Object read);

    /** The batches of a file that Python reads, in the shape that this reader gives; and then one of them. */
    abstract java.util.Iterator<?> inTurn(PythonRows batches);

    abstract boolean given(Object made);

    @Override
    public void close() {
      try {
        if (values instanceof AutoCloseable open) {
          open.close();
        }
        if (whole != null) {
          whole.close();
        }
        values = null;
        whole = null;
      } catch (Exception error) {
        throw new IllegalStateException(error);
      }
    }
  }

  // -- batches ----------------------------------------------------------------------------------

  private static final class Batches extends Files<ColumnarBatch> {
    private final Words.Known[] words;  // of the columns of the file
    private ColumnarBatch batch;

    Batches(Factory factory, SealedFile[] files) {
      super(factory, files);
      words = new Words.Known[factory.stored.length()];
    }

    @Override
    public ColumnarBatch get() {
      return batch;
    }

    @Override
    java.util.Iterator<?> inTurn(PythonRows batches) {
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
      ColumnVector index = indexed ? in.column(factory.indexAt()) : numbered ? new Vectors.Counted(at) : null;
      at += in.numRows();
      int[] live = deleted == null ? null : live(index, in.numRows());
      ColumnVector[] out = new ColumnVector[factory.required.length()];
      int at = 0;
      for (int i = 0; i < out.length; i++) {
        String name = factory.required.apply(i).name();
        boolean isStored = !name.equals(SealedTable.FILE) && !name.equals(SealedTable.POS);
        ColumnVector column = column(name, isStored ? stored(in, at++) : null, index, in.numRows());
        out[i] = live == null ? column : new Vectors.Mapped(column, live);
      }
      batch = new ColumnarBatch(out, live == null ? in.numRows() : live.length);
      return batch.numRows() > 0;
    }

    private ColumnVector stored(ColumnarBatch in, int at) {
      ColumnVector column = in.column(at);
      words[at] = Words.Known.of(column, words[at]);
      return words[at] == null ? column : new Words(column, words[at]);
    }

    private ColumnVector column(String name, ColumnVector stored, ColumnVector index, int rows) {
      switch (name) {
        case SealedTable.FILE:
          ConstantColumnVector path = new ConstantColumnVector(rows, DataTypes.StringType);
          path.setUtf8String(UTF8String.fromString(file.location));
          return path;
        case SealedTable.POS:
          return index;
        case SealedTable.ROW_ID:
          return new Vectors.OrElse(stored, file.firstRowId, index);
        case SealedTable.LAST_UPDATED:
          return new Vectors.OrElse(stored, file.firstRowId == null ? null : file.sequenceNumber, null);
        default:
          return isUuid(factory.required.apply(name), stored.dataType()) ? new Vectors.Uuid(stored) : stored;
      }
    }

    /** The numbers of the rows that stay; null if all do. */
    private int[] live(ColumnVector index, int rows) {
      if (rows == 0) {
        return null;
      }
      long first = index.getLong(0);
      long last = index.getLong(rows - 1);
      int[] live = new int[rows];
      int count = 0;
      if (last - first == rows - 1) {  // contiguous: walk the deleted positions, not the rows
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

  // -- rows -------------------------------------------------------------------------------------

  private static final class Rows extends Files<InternalRow> {
    private InternalRow row;

    Rows(Factory factory, SealedFile[] files) {
      super(factory, files);
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    java.util.Iterator<?> inTurn(PythonRows batches) {
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
      long position = indexed ? in.getLong(factory.indexAt()) : at++;
      if (deleted != null && deleted.contains((int) position)) {
        return false;
      }
      Object[] out = new Object[factory.required.length()];
      int at = 0;
      for (int i = 0; i < out.length; i++) {
        switch (factory.required.apply(i).name()) {
          case SealedTable.FILE -> out[i] = UTF8String.fromString(file.location);
          case SealedTable.POS -> out[i] = position;
          case SealedTable.ROW_ID ->
              out[i] = orElse(in, at++, file.firstRowId == null ? null : file.firstRowId + position);
          case SealedTable.LAST_UPDATED ->
              out[i] = orElse(in, at++, file.firstRowId == null ? null : file.sequenceNumber);
          default -> {
            DataType type = factory.stored.apply(at).dataType();
            Object value = in.get(at++, type);
            boolean uuid = value != null && isUuid(factory.required.apply(i), type);
            out[i] = uuid ? Vectors.uuid((byte[]) value) : value;
          }
        }
      }
      row = new GenericInternalRow(out);
      return true;
    }

    private static Object orElse(InternalRow in, int at, Long inherited) {
      return in.isNullAt(at) ? inherited : (Object) in.getLong(at);
    }
  }
}
