package sealberg.read;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.SerializableConfiguration;
import scala.jdk.javaapi.CollectionConverters;
import sealberg.catalog.MetadataColumns;
import sealberg.crypto.PinnedFooterFileSystem;

/**
 * Makes readers of a task: Spark's own Parquet reader for one file after the other, each with its
 * own key.
 *
 * <pre>
 *   in the file, by field id:  a, b, _row_id, _last_updated_sequence_number
 *     1. the position of each row, if needed: counted, or given by Spark's reader where filters let it skip rows
 *     2. deleted rows are left out of the batch: the others are renumbered, not copied; a query that reads
 *        _deleted gets all rows
 *     3. metadata columns are made of stored values and of what Python sent about the file
 *   out:  the columns that Spark asked for, in its order
 * </pre>
 *
 * <p>{@code numbered} is true if the query reads the positions of rows. Without {@code indexed},
 * Spark's reader skips no row.
 */
record ReaderFactory(
    Broadcast<SerializableConfiguration> conf,
    StructType required,
    StructType stored,
    ParquetReadFunction plain,
    ParquetReadFunction indexed,
    boolean numbered,
    boolean deletes,
    boolean columnar)
    implements PartitionReaderFactory {
  private static final String INDEX = ParquetFileFormat.ROW_INDEX_TEMPORARY_COLUMN_NAME();

  /** Whether Spark's reader returns batches of these columns, or rows one by one. */
  static boolean columnar(StructType required, StructType known) {
    return new ParquetFileFormat()
        .supportBatch(SparkSession.active(), stored(required, known).add(INDEX, "long"));
  }

  /**
   * Runs on the driver: makes Spark's reader functions, which are then sent to the tasks. The
   * function with positions and the configuration are large, so they are left out if neither
   * positions nor deletes need them.
   */
  static ReaderFactory of(
      StructType required,
      StructType known,
      List<Filter> filters,
      boolean deletes,
      boolean columnar) {
    StructType stored = stored(required, known);
    Set<String> asked = Set.of(required.fieldNames());
    boolean numbered =
        asked.contains(MetadataColumns.POS) || asked.contains(MetadataColumns.ROW_ID);
    boolean skipsRows = !filters.isEmpty() && (numbered || deletes);
    SparkSession spark = SparkSession.active();
    ParquetReadFunction plain =
        skipsRows && numbered ? null : reads(spark, stored, filters, columnar);
    ParquetReadFunction indexed =
        skipsRows ? reads(spark, stored.add(INDEX, "long"), filters, columnar) : null;
    Broadcast<SerializableConfiguration> conf =
        numbered || deletes ? BroadcastCache.conf(context(spark), configured(spark)) : null;
    return new ReaderFactory(conf, required, stored, plain, indexed, numbered, deletes, columnar);
  }

  /** For splits whose rows the Python worker returns. */
  static ReaderFactory ofWorkers(StructType required) {
    SparkSession spark = SparkSession.active();
    Broadcast<SerializableConfiguration> conf =
        BroadcastCache.conf(context(spark), configured(spark));
    return new ReaderFactory(conf, required, new StructType(), null, null, false, false, true);
  }

  /** The requested columns that are stored in files. */
  private static StructType stored(StructType required, StructType known) {
    List<StructField> inFile = new ArrayList<>();
    for (StructField field : required.fields()) {
      if (!MetadataColumns.isComputed(field.name())) {
        inFile.add(pruned(field, known.apply(field.name())));
      }
    }
    return new StructType(inFile.toArray(new StructField[0]));
  }

  /** Spark prunes nested columns by name; their field ids and defaults are in `known`. */
  private static StructField pruned(StructField asked, StructField known) {
    return new StructField(
        known.name(),
        pruned(asked.dataType(), known.dataType()),
        known.nullable(),
        known.metadata());
  }

  private static DataType pruned(DataType asked, DataType known) {
    if (asked instanceof StructType some && known instanceof StructType all) {
      StructField[] fields =
          Arrays.stream(some.fields())
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

  private static ParquetReadFunction reads(
      SparkSession spark, StructType schema, List<Filter> filters, boolean columnar) {
    Configuration conf = configured(spark);
    conf.setBoolean("spark.sql.parquet.fieldId.read.enabled", true);
    java.util.Map<String, String> options =
        java.util.Map.of(
            "returning_batch",
            String.valueOf(columnar),
            "datetimeRebaseMode",
            "CORRECTED",
            "int96RebaseMode",
            "CORRECTED");
    // Before the function is made, because making it adds settings to the configuration.
    Configuration own = new Configuration(conf);
    return BroadcastCache.once(
        context(spark),
        conf,
        List.of(schema, filters, columnar),
        () ->
            new ParquetReadFunction(
                new ParquetFileFormat()
                    .buildReaderWithPartitionValues(
                        spark,
                        schema,
                        new StructType(),
                        schema,
                        CollectionConverters.asScala(filters).toSeq(),
                        scala.collection.immutable.Map.from(CollectionConverters.asScala(options)),
                        own)));
  }

  private static SparkContext context(SparkSession spark) {
    return ((org.apache.spark.sql.classic.SparkSession) spark).sparkContext();
  }

  private static Configuration configured(SparkSession spark) {
    Configuration conf = FileSplit.conf(spark);
    PinnedFooterFileSystem.enable(conf);
    return conf;
  }

  /**
   * A UUID column is text in the query and bytes in the file; Python marks it by the type in the
   * read schema.
   */
  static boolean isUuid(StructField asked, DataType stored) {
    return asked.dataType().equals(DataTypes.StringType) && stored.equals(DataTypes.BinaryType);
  }

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return columnar;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new RowReader(this, ((ScanTask) partition).files());
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    return new ColumnarReader(this, ((ScanTask) partition).files());
  }

  /** Whether the query gets deleted rows too: only if it reads the column that tells them apart. */
  boolean showsDeleted() {
    return Arrays.asList(required.fieldNames()).contains(MetadataColumns.DELETED);
  }

  int indexAt() {
    return stored.length();
  }
}
