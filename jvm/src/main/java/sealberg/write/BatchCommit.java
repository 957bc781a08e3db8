package sealberg.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Base64;
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
import sealberg.bridge.PythonBridge;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;
import sealberg.crypto.FileIntegrityException;
import sealberg.read.FileSplit;
import sealberg.read.FilterJson;
import sealberg.read.TableScanBuilder;
import sealberg.storage.TableStorage;

/**
 * What a write does on the driver and in its tasks: files, positions and keys on their way to
 * Python's commit.
 *
 * <pre>
 *   task:    rows ──> Writer ──> Done: files with their keys, positions that go
 *   driver:  the Done of each committed task ──> one commit; files of a write that is given up are deleted
 * </pre>
 */
final class BatchCommit implements DeltaBatchWrite {
  private final EncryptedTable table;
  private final ObjectNode how;
  private final JsonNode plan;
  private final boolean lineage;
  private final LogicalWriteInfo info;
  private final Supplier<TableScanBuilder> scan;
  private TableStorage storage;
  private String writeId;
  private boolean handedOver;

  BatchCommit(
      EncryptedTable table,
      ObjectNode how,
      JsonNode plan,
      boolean lineage,
      LogicalWriteInfo info,
      Supplier<TableScanBuilder> scan) {
    this.table = table;
    this.how = how;
    this.plan = plan;
    this.lineage = lineage;
    this.info = info;
    this.scan = scan;
  }

  EncryptedTable table() {
    return table;
  }

  JsonNode plan() {
    return plan;
  }

  @Override
  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
    // Anew for each batch of a stream: what is tidied up by its id must be of this batch alone.
    writeId = UUID.randomUUID().toString();
    handedOver = false;
    storage = TableStorage.of(table, plan.get("storage"), SparkSession.active());
    StructType schema = (StructType) DataType.fromJson(plan.get("schema").toString());
    StructType written =
        lineage
            ? schema
                .add(MetadataColumns.ROW_ID, DataTypes.LongType, true)
                .add(MetadataColumns.LAST_UPDATED, DataTypes.LongType, true)
            : schema;
    Map<String, Integer> ids = new HashMap<>();
    plan.get("ids").properties().forEach(one -> ids.put(one.getKey(), one.getValue().asInt()));
    List<PartitionedWriter.Partition> partitions = new ArrayList<>();
    plan.get("partitions").forEach(one -> partitions.add(partition(one, schema)));
    PartitionedWriter.Settings settings =
        new PartitionedWriter.Settings(
            new SerializableConfiguration(conf(written)),
            storage,
            written,
            partitions,
            ids,
            plan.get("folder").asText(),
            writeId,
            plan.get("key-length").asInt(),
            plan.get("target-size").asLong(),
            plan.get("clustered").asBoolean(),
            PythonBridge.strings(plan.get("parquet")));
    return new Factory(
        settings,
        projection(schema),
        lineage,
        at(info, true, MetadataColumns.FILE),
        at(info, true, MetadataColumns.POS),
        at(info, false, MetadataColumns.ROW_ID),
        at(info, false, MetadataColumns.LAST_UPDATED));
  }

  /** Null unless the table accepts rows of any schema. */
  private RowProjection projection(StructType table) {
    if (!plan.has("positions")) {
      return null;
    }
    StructType query = (StructType) DataType.fromJson(how.get("rows").toString());
    return new RowProjection(
        query, table, PythonBridge.JSON.convertValue(plan.get("positions"), int[].class));
  }

  private static int at(LogicalWriteInfo info, boolean inRowId, String name) {
    if (info == null) {
      return -1;
    }
    StructType schema =
        (inRowId ? info.rowIdSchema() : info.metadataSchema()).orElse(new StructType());
    return List.of(schema.fieldNames()).indexOf(name);
  }

  private static PartitionedWriter.Partition partition(JsonNode one, StructType schema) {
    String[] names = PythonBridge.texts(one.get("path"));
    int[] path = new int[names.length];
    DataType[] types = new DataType[names.length];
    DataType inside = schema;
    for (int i = 0; i < names.length; i++) {
      path[i] = ((StructType) inside).fieldIndex(names[i]);
      inside = ((StructType) inside).apply(path[i]).dataType();
      types[i] = inside;
    }
    return new PartitionedWriter.Partition(
        one.get("transform").asText(), one.get("width").asInt(), path, types);
  }

  /** What Spark's own writer wants to find in a configuration. */
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
    ObjectNode arguments = how.deepCopy();
    ArrayNode files = arguments.putArray("files");
    ArrayNode deleted = arguments.putArray("deleted");
    boolean retried = false;
    for (WriterCommitMessage message : messages) {
      Done done = (Done) message;
      retried |= done.retried;
      done.files.forEach(file -> files.add(PythonBridge.parsed(file)));
      done.deleted.forEach(
          (file, rows) -> deleted.addObject().put("location", file).put("rows", rows));
    }
    if (retried) {
      Set<String> kept = new HashSet<>();
      files.forEach(file -> kept.add(new Path(file.get("location").asText()).getName()));
      discardAllBut(kept); // an attempt whose process was killed could not tidy up
    }
    arguments.set("plan", plan);
    TableScanBuilder read = scan.get();
    if (read != null) {
      arguments.set("filters", FilterJson.described(read.pushedFilters()));
      arguments.set("replaced", PythonBridge.names(read.locations()));
    }
    handedOver =
        true; // from here on the files are Python's, which knows whether a failed commit may have
    // landed
    table.ask("commit", arguments);
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
        plan.get("folder").asText(), writeId, kept, storage, FileSplit.conf(SparkSession.active()));
  }

  /** One batch of a stream: the same, and Python checks that the batch is committed once. */
  record Streaming(BatchCommit batch, String queryId) implements StreamingWrite {
    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
      DeltaWriterFactory factory = batch.createBatchWriterFactory(physical);
      return (partition, task, epoch) -> factory.createWriter(partition, task);
    }

    @Override
    public void commit(long epoch, WriterCommitMessage[] messages) {
      batch.how.put("query", queryId).put("epoch", epoch);
      batch.commit(messages);
    }

    @Override
    public void abort(long epoch, WriterCommitMessage[] messages) {
      batch.abort(messages);
    }
  }

  // -- in a task
  // ----------------------------------------------------------------------------------------

  /**
   * What a committed task brings back: files with their keys, and the rows that go, a bitmap for
   * each file.
   */
  private record Done(List<String> files, Map<String, String> deleted, boolean retried)
      implements WriterCommitMessage {
    @Override
    public String toString() {
      return files.size() + " files"; // and not their keys
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

    /** A row that is new. */
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
     * A row that moves, and tells when it was last updated; or one that is updated, and its file
     * will tell.
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
            "row " + position + " of one file is too far down to be deleted");
      }
      deleted
          .computeIfAbsent(id.getString(factory.fileAt), file -> new RoaringBitmap())
          .add((int) position);
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) {
      throw new UnsupportedOperationException("an update is a delete and an insert");
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
      Map<String, String> rows = new HashMap<>();
      for (Map.Entry<String, RoaringBitmap> one : deleted.entrySet()) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        one.getValue().serialize(new DataOutputStream(bytes));
        rows.put(one.getKey(), Base64.getEncoder().encodeToString(bytes.toByteArray()));
      }
      TaskContext task = TaskContext.get();
      return new Done(
          out.commit(), rows, task.attemptNumber() > 0 || task.stageAttemptNumber() > 0);
    }

    @Override
    public void abort() {
      out.abort();
    }

    @Override
    public void close() {}
  }
}
