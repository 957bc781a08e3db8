package sealberg;

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
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.RoaringBitmap;

/**
 * One write to a table: tasks write files, Python commits them as one snapshot.
 *
 * <pre>
 *   INSERT                  rows ──────────────────────────────> SealedWriter ──> files and their keys ─┐
 *   DELETE, UPDATE, MERGE   Spark's own rewriting: rows that come, as above ────────────────────────────┤
 *                           and rows that go, by _file and _pos ──> positions for each file ────────────┴─> commit
 * </pre>
 *
 * Keys come to the driver inside the commit message of a task, and so only from tasks that Spark let commit.
 */
final class SealedWrite {
  private SealedWrite() {}

  // -- INSERT -------------------------------------------------------------------------------------

  static final class Builder implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite {
    private final SealedTable table;
    private final ObjectNode how = Bridge.object().put("mode", "append");

    Builder(SealedTable table) {
      this.table = table;
    }

    @Override
    public boolean canOverwrite(Filter[] filters) {
      for (Filter filter : filters) {
        if (Filters.described(filter) == null) {
          return false;
        }
      }
      return true;
    }

    @Override
    public WriteBuilder overwrite(Filter[] filters) {
      ArrayNode list = how.put("mode", "overwrite").putArray("filters");
      for (Filter filter : filters) {
        list.add(Filters.described(filter));
      }
      return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
      how.put("mode", "dynamic");
      return this;
    }

    @Override
    public Write build() {
      JsonNode plan = table.ask("begin-write", how.deepCopy());
      return new Insert(table, how, plan);
    }
  }

  /** Rows are asked for clustered and sorted by partition, then in the sort order of the table. */
  private record Insert(SealedTable table, ObjectNode how, JsonNode plan) implements RequiresDistributionAndOrdering {
    @Override
    public BatchWrite toBatch() {
      return new Batch(table, how, plan, false, null);
    }

    @Override
    public Distribution requiredDistribution() {
      switch (plan.get("distribution").asText()) {
        case "hash":
          return Distributions.clustered(table.partitioning());
        case "range":
          return Distributions.ordered(requiredOrdering());
        default:
          return Distributions.unspecified();
      }
    }

    @Override
    public SortOrder[] requiredOrdering() {
      List<SortOrder> orders = new ArrayList<>();
      for (Expression partition : table.partitioning()) {
        orders.add(Expressions.sort(partition, SortDirection.ASCENDING));
      }
      for (JsonNode one : plan.get("order")) {
        Expression by = one.get("transform").asText().equals("identity")
            ? Expressions.column(one.get("column").asText())
            : SealedTable.transform(one);
        SortDirection direction = one.get("descending").asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING;
        NullOrdering nulls = one.get("nulls-first").asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST;
        orders.add(Expressions.sort(by, direction, nulls));
      }
      return orders.toArray(new SortOrder[0]);
    }
  }

  // -- DELETE, UPDATE, MERGE --------------------------------------------------------------------------

  static final class Rows implements SupportsDelta {
    private final SealedTable table;
    private final Command command;
    private SealedScan.Builder scan;

    Rows(SealedTable table, Command command) {
      this.table = table;
      this.command = command;
    }

    @Override
    public Command command() {
      return command;
    }

    /** Remembered for its filters: rows that they may match must not have been added by others meanwhile. */
    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      scan = new SealedScan.Builder(table);
      return scan;
    }

    @Override
    public NamedReference[] rowId() {
      return new NamedReference[] {Expressions.column(SealedTable.FILE), Expressions.column(SealedTable.POS)};
    }

    @Override
    public NamedReference[] requiredMetadataAttributes() {
      return command == Command.DELETE
          ? new NamedReference[0]
          : new NamedReference[] {Expressions.column(SealedTable.ROW_ID)};
    }

    @Override
    public boolean representUpdateAsDeleteAndInsert() {
      return true;
    }

    @Override
    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new DeltaWriteBuilder() {
        @Override
        public DeltaWrite build() {
          String name = command.toString().toLowerCase(java.util.Locale.ROOT);
          ObjectNode how = Bridge.object().put("mode", "rows").put("command", name);
          JsonNode plan = table.ask("begin-write", how.deepCopy());
          return new DeltaWrite() {
            @Override
            public DeltaBatchWrite toBatch() {
              if (scan != null) {
                how.set("filters", Filters.described(scan.pushedFilters()));
              }
              return new Batch(table, how, plan, command != Command.DELETE, info);
            }
          };
        }
      };
    }
  }

  // -- on the driver ----------------------------------------------------------------------------------

  private static final class Batch implements DeltaBatchWrite {
    private final SealedTable table;
    private final ObjectNode how;
    private final JsonNode plan;
    private final boolean lineage;
    private final LogicalWriteInfo info;
    private final String writeId = UUID.randomUUID().toString();
    private boolean handedOver = false;

    Batch(SealedTable table, ObjectNode how, JsonNode plan, boolean lineage, LogicalWriteInfo info) {
      this.table = table;
      this.how = how;
      this.plan = plan;
      this.lineage = lineage;
      this.info = info;
    }

    @Override
    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
      StructType schema = (StructType) DataType.fromJson(plan.get("schema").toString());
      StructType written = lineage
          ? schema.add(SealedTable.ROW_ID, DataTypes.LongType, true).add(SealedTable.LAST_UPDATED, DataTypes.LongType, true)
          : schema;
      Map<String, Integer> ids = new HashMap<>();
      plan.get("ids").fields().forEachRemaining(one -> ids.put(one.getKey(), one.getValue().asInt()));
      List<SealedWriter.Partition> partitions = new ArrayList<>();
      plan.get("partitions").forEach(one -> partitions.add(partition(one, schema)));
      SealedWriter.Settings settings = new SealedWriter.Settings(
          new SerializableConfiguration(conf(written)), written, partitions, ids, plan.get("folder").asText(),
          writeId, plan.get("key-length").asInt(), plan.get("target-size").asLong(), Bridge.strings(plan.get("parquet")));
      return new Factory(
          settings, lineage, at(info, true, SealedTable.FILE), at(info, true, SealedTable.POS),
          at(info, false, SealedTable.ROW_ID));
    }

    private static int at(LogicalWriteInfo info, boolean inRowId, String name) {
      if (info == null) {
        return -1;
      }
      StructType schema = (inRowId ? info.rowIdSchema() : info.metadataSchema()).orElse(new StructType());
      return List.of(schema.fieldNames()).indexOf(name);
    }

    private static SealedWriter.Partition partition(JsonNode one, StructType schema) {
      String[] names = Bridge.texts(one.get("path"));
      int[] path = new int[names.length];
      DataType[] types = new DataType[names.length];
      DataType inside = schema;
      for (int i = 0; i < names.length; i++) {
        path[i] = ((StructType) inside).fieldIndex(names[i]);
        inside = ((StructType) inside).apply(path[i]).dataType();
        types[i] = inside;
      }
      return new SealedWriter.Partition(one.get("transform").asText(), one.get("width").asInt(), path, types);
    }

    /** What Spark's own writer wants to find in a configuration. */
    private static Configuration conf(StructType schema) {
      SparkSession spark = SparkSession.active();
      try {
        Job job = Job.getInstance(SealedFile.conf(spark));
        new ParquetFileFormat().prepareWrite(
            spark, job, scala.collection.immutable.Map$.MODULE$.<String, String>empty(), schema);
        Configuration conf = job.getConfiguration();
        conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS");  // Spark's default is INT96
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
      for (WriterCommitMessage message : messages) {
        Done done = (Done) message;
        done.files.forEach(file -> files.add(Bridge.parsed(file)));
        done.deleted.forEach((file, rows) -> deleted.addObject().put("location", file).put("rows", rows));
      }
      arguments.set("plan", plan);
      handedOver = true;  // from here on the files are Python's, which knows whether a failed commit may have landed
      table.ask("commit", arguments);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
      if (handedOver) {
        return;
      }
      SparkSession spark = SparkSession.active();
      SealedWriter.discardAll(plan.get("folder").asText(), writeId, SealedFile.conf(spark));
    }
  }

  // -- in a task ----------------------------------------------------------------------------------------

  /** What a committed task brings back: files with their keys, and the rows that go, a bitmap for each file. */
  private static final class Done implements WriterCommitMessage {
    final List<String> files;
    final Map<String, String> deleted;

    Done(List<String> files, Map<String, String> deleted) {
      this.files = files;
      this.deleted = deleted;
    }
  }

  private record Factory(SealedWriter.Settings settings, boolean lineage, int fileAt, int posAt, int rowIdAt)
      implements DeltaWriterFactory {
    @Override
    public DeltaWriter<InternalRow> createWriter(int partition, long task) {
      return new Writer(this, new SealedWriter(settings, partition, task));
    }
  }

  private static final class Writer implements DeltaWriter<InternalRow> {
    private final Factory factory;
    private final SealedWriter out;
    private final Map<String, RoaringBitmap> deleted = new HashMap<>();
    private final JoinedRow joined = new JoinedRow();

    Writer(Factory factory, SealedWriter out) {
      this.factory = factory;
      this.out = out;
    }

    @Override
    public void write(InternalRow row) throws IOException {
      out.write(row);
    }

    @Override
    public void insert(InternalRow row) throws IOException {
      out.write(factory.lineage ? withRowId(row, null) : row);
    }

    @Override
    public void reinsert(InternalRow metadata, InternalRow row) throws IOException {
      int at = factory.rowIdAt;
      out.write(withRowId(row, at < 0 || metadata.isNullAt(at) ? null : metadata.getLong(at)));
    }

    /** A row that is updated stays the same row; when it was last updated, its file will tell. */
    private InternalRow withRowId(InternalRow row, Long rowId) {
      return joined.apply(row, new GenericInternalRow(new Object[] {rowId, null}));
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
      long position = id.getLong(factory.posAt);
      if (position > Integer.toUnsignedLong(-1)) {
        throw new SealedFileException("row " + position + " of one file is too far down to be deleted");
      }
      deleted.computeIfAbsent(id.getString(factory.fileAt), file -> new RoaringBitmap()).add((int) position);
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
      return new Done(out.commit(), rows);
    }

    @Override
    public void abort() {
      out.abort();
    }

    @Override
    public void close() {}
  }
}
