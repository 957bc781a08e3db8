package sealberg.write;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.RoaringBitmap;
import sealberg.bridge.WriteMessages.CommitRequest;
import sealberg.bridge.WriteMessages.DeletedPositions;
import sealberg.bridge.WriteMessages.PartitionPath;
import sealberg.bridge.WriteMessages.StreamEpoch;
import sealberg.bridge.WriteMessages.WritePlan;
import sealberg.bridge.WriteMessages.WriteRequest;
import sealberg.bridge.WriteMessages.WrittenFile;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;
import sealberg.crypto.FileIntegrityException;
import sealberg.read.FileSplit;
import sealberg.read.FilterJson;
import sealberg.read.TableScanBuilder;
import sealberg.storage.TableStorage;

/**
 * A write, on the driver and in its tasks: files, deleted positions and keys on their way to
 * Python's commit.
 *
 * <pre>
 *   task:    rows ──> Writer ──> Done: files with their keys, positions of deleted rows
 *   driver:  the Done of each committed task ──> one commit; the files of an aborted write are deleted
 * </pre>
 */
final class BatchCommit implements DeltaBatchWrite {
  private final EncryptedTable table;
  private final WriteRequest write;
  private final WritePlan plan;
  private final boolean lineage;
  private final LogicalWriteInfo info;
  private final Supplier<TableScanBuilder> scan;
  private TableStorage storage;
  private String writeId;
  private boolean handedOver;

  BatchCommit(
      EncryptedTable table,
      WriteRequest write,
      WritePlan plan,
      boolean lineage,
      LogicalWriteInfo info,
      Supplier<TableScanBuilder> scan) {
    this.table = table;
    this.write = write;
    this.plan = plan;
    this.lineage = lineage;
    this.info = info;
    this.scan = scan;
  }

  EncryptedTable table() {
    return table;
  }

  WritePlan plan() {
    return plan;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    // A new id for each batch of a stream: cleaning up by this id must delete files of this batch
    // only.
    writeId = UUID.randomUUID().toString();
    handedOver = false;
    storage = TableStorage.of(table, plan.storage(), SparkSession.active());
    StructType schema = plan.schema();
    StructType written =
        lineage
            ? schema
                .add(MetadataColumns.ROW_ID, DataTypes.LongType, true)
                .add(MetadataColumns.LAST_UPDATED, DataTypes.LongType, true)
            : schema;
    List<PartitionedWriter.Partition> partitions =
        plan.partitions().stream().map(field -> partition(field, schema)).toList();
    PartitionedWriter.Settings settings =
        new PartitionedWriter.Settings(
            new SerializableConfiguration(conf(written)),
            storage,
            written,
            partitions,
            plan.fieldIds(),
            plan.fixedLengths(),
            plan.folder(),
            writeId,
            plan.keyLength(),
            plan.targetFileSize(),
            plan.clustered(),
            plan.parquet(),
            plan.avro());
    return new Factory(
        settings,
        projection(schema),
        lineage,
        at(info, true, MetadataColumns.FILE),
        at(info, true, MetadataColumns.POS),
        at(info, false, MetadataColumns.ROW_ID),
        at(info, false, MetadataColumns.LAST_UPDATED));
  }

  /** Null unless the table has write.spark.accept-any-schema. */
  private RowProjection projection(StructType table) {
    if (plan.columnPositions() == null) {
      return null;
    }
    int[] positions = plan.columnPositions().stream().mapToInt(Integer::intValue).toArray();
    return new RowProjection(write.querySchema(), table, positions);
  }

  private static int at(LogicalWriteInfo info, boolean inRowId, String name) {
    if (info == null) {
      return -1;
    }
    StructType schema =
        (inRowId ? info.rowIdSchema() : info.metadataSchema()).orElse(new StructType());
    return List.of(schema.fieldNames()).indexOf(name);
  }

  private static PartitionedWriter.Partition partition(PartitionPath field, StructType schema) {
    int[] path = new int[field.path().size()];
    DataType[] types = new DataType[path.length];
    DataType inside = schema;
    for (int i = 0; i < path.length; i++) {
      path[i] = ((StructType) inside).fieldIndex(field.path().get(i));
      inside = ((StructType) inside).apply(path[i]).dataType();
      types[i] = inside;
    }
    return new PartitionedWriter.Partition(field.transform(), field.width(), path, types);
  }

  /** The settings that Spark's Parquet writer reads from a Hadoop configuration. */
  private static Configuration conf(StructType schema) {
    SparkSession spark = SparkSession.active();
    try {
      Job job = Job.getInstance(FileSplit.conf(spark));
      new ParquetFileFormat()
          .prepareWrite(
              spark, job, scala.collection.immutable.Map$.MODULE$.<String, String>empty(), schema);
      Configuration conf = job.getConfiguration();
      conf.set(
          "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"); // Spark's default is INT96
      conf.set("spark.sql.parquet.writeLegacyFormat", "false");
      return conf;
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void commit(WriterCommitMessage[] messages) {
    commitFiles(messages, null);
  }

  private void commitFiles(WriterCommitMessage[] messages, StreamEpoch epoch) {
    List<WrittenFile> files = new ArrayList<>();
    List<DeletedPositions> deleted = new ArrayList<>();
    boolean retried = false;
    for (WriterCommitMessage message : messages) {
      Done done = (Done) message;
      retried |= done.retried;
      files.addAll(done.files);
      deleted.addAll(done.deleted);
    }
    if (retried) {
      Set<String> kept = new HashSet<>();
      files.forEach(file -> kept.add(new Path(file.location()).getName()));
      discardAllBut(kept); // an attempt whose process was killed has not deleted its files
    }
    TableScanBuilder read = scan.get();
    CommitRequest request =
        new CommitRequest(
            write,
            plan.schemaId(),
            plan.specId(),
            plan.sortOrderId(),
            files,
            deleted,
            read == null ? null : FilterJson.messages(read.pushedFilters()),
            read == null ? null : read.locations(),
            epoch);
    // From here on Python decides whether files are deleted: a commit that failed may have been
    // applied.
    handedOver = true;
    table.ask(request);
  }

  @Override
  public void abort(WriterCommitMessage[] messages) {
    if (handedOver || writeId == null) {
      return;
    }
    discardAllBut(Set.of());
  }

  private void discardAllBut(Set<String> kept) {
    PartitionedWriter.discardAll(
        plan.folder(), writeId, kept, storage, FileSplit.conf(SparkSession.active()));
  }

  /** A batch of a stream. Python checks that the batch is committed once. */
  record Streaming(BatchCommit batch, String queryId) implements StreamingWrite {
    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
      DeltaWriterFactory factory = batch.createBatchWriterFactory(physical);
      return (partition, task, epoch) -> factory.createWriter(partition, task);
    }

    @Override
    public void commit(long epoch, WriterCommitMessage[] messages) {
      batch.commitFiles(messages, new StreamEpoch(queryId, epoch));
    }

    @Override
    public void abort(long epoch, WriterCommitMessage[] messages) {
      batch.abort(messages);
    }
  }

  // -- in a task
  // ----------------------------------------------------------------------------------------

  /**
   * The result of a committed task: files with their keys, and a bitmap of deleted positions for
   * each file.
   */
  private record Done(List<WrittenFile> files, List<DeletedPositions> deleted, boolean retried)
      implements WriterCommitMessage {
    @Override
    public String toString() {
      return files.size() + " files"; // never their keys
    }
  }

  private record Factory(
      PartitionedWriter.Settings settings,
      RowProjection projection,
      boolean lineage,
      int fileAt,
      int posAt,
      int rowIdAt,
      int lastUpdatedAt)
      implements DeltaWriterFactory {
    @Override
    public DeltaWriter<InternalRow> createWriter(int partition, long task) {
      return new Writer(this, new PartitionedWriter(settings, partition, task));
    }
  }

  private static final class Writer implements DeltaWriter<InternalRow> {
    private final Factory factory;
    private final PartitionedWriter out;
    private final Map<String, RoaringBitmap> deleted = new HashMap<>();
    private final JoinedRow joined = new JoinedRow();
    private final UnsafeProjection projection;

    Writer(Factory factory, PartitionedWriter out) {
      this.factory = factory;
      this.out = out;
      this.projection = factory.projection == null ? null : factory.projection.compiled();
    }

    /** A new row. */
    @Override
    public void write(InternalRow row) throws IOException {
      InternalRow ours = projection == null ? row : projection.apply(row);
      out.write(factory.lineage ? withLineage(ours, null, null) : ours);
    }

    @Override
    public void insert(InternalRow row) throws IOException {
      write(row);
    }

    /**
     * A row that keeps its row id. A copied row also keeps its last updated sequence number; an
     * updated row inherits it from its new file.
     */
    @Override
    public void write(InternalRow metadata, InternalRow row) throws IOException {
      out.write(
          withLineage(
              row, number(metadata, factory.rowIdAt), number(metadata, factory.lastUpdatedAt)));
    }

    @Override
    public void reinsert(InternalRow metadata, InternalRow row) throws IOException {
      write(metadata, row);
    }

    private InternalRow withLineage(InternalRow row, Long rowId, Long lastUpdated) {
      return joined.apply(row, new GenericInternalRow(new Object[] {rowId, lastUpdated}));
    }

    private static Long number(InternalRow metadata, int at) {
      return at < 0 || metadata.isNullAt(at) ? null : metadata.getLong(at);
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
      long position = id.getLong(factory.posAt);
      if (position > Integer.toUnsignedLong(-1)) {
        throw new FileIntegrityException(
            "cannot delete row "
                + position
                + " of "
                + id.getString(factory.fileAt)
                + ": expected a position below 4294967296");
      }
      deleted
          .computeIfAbsent(id.getString(factory.fileAt), file -> new RoaringBitmap())
          .add((int) position);
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) {
      throw new UnsupportedOperationException(
          "internal error: Spark sent an update, expected a delete and an insert");
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
      List<DeletedPositions> positions = new ArrayList<>();
      for (Map.Entry<String, RoaringBitmap> file : deleted.entrySet()) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        file.getValue().serialize(new DataOutputStream(bytes));
        positions.add(new DeletedPositions(file.getKey(), bytes.toByteArray()));
      }
      TaskContext task = TaskContext.get();
      return new Done(
          out.commit(), positions, task.attemptNumber() > 0 || task.stageAttemptNumber() > 0);
    }

    @Override
    public void abort() {
      out.abort();
    }

    @Override
    public void close() {}
  }
}
