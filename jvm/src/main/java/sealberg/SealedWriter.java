package sealberg;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.crypto.FileEncryptionProperties;
import org.apache.parquet.hadoop.ParquetFileWriter;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.hadoop.util.HadoopOutputFile;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;

/**
 * The rows of one task, in files: each of one partition, each under a key that is made here and used once.
 *
 * <pre>
 *   row ──transforms──> partition ──> its open file ──large enough──> closed: location, length, key, partition
 * </pre>
 *
 * Rows that come sorted by partition need one open file at a time. Else there are a few, and the one that was used
 * longest ago is closed when they are too many, or hold too much. What a task has written it either hands over
 * with its keys, when it commits, or deletes. File names say nothing of what is in them, not even the partition.
 */
final class SealedWriter {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int MOST_OPEN = 32;
  private static final long MOST_BYTES = 256L << 20;
  private static final int CHECK_SIZE_EVERY = 1000;

  /** All that a task needs to know; no key is among it. */
  record Settings(
      SerializableConfiguration conf,
      StructType schema,
      List<Partition> partitions,
      Map<String, Integer> ids,
      String folder,
      String writeId,
      int keyLength,
      long targetSize,
      boolean clustered,
      Map<String, String> parquet)
      implements Serializable {}

  /** A partition field: where its column is in a row, and what is done with its value. */
  record Partition(String transform, int width, int[] path, DataType[] types) implements Serializable {
    Object of(InternalRow row) {
      InternalRow inside = row;
      for (int i = 0; i < path.length - 1; i++) {
        if (inside.isNullAt(path[i])) {
          return null;
        }
        inside = inside.getStruct(path[i], ((StructType) types[i]).length());
      }
      int at = path[path.length - 1];
      DataType type = types[path.length - 1];
      return Transforms.apply(transform, width, type, inside.isNullAt(at) ? null : inside.get(at, type));
    }
  }

  private final Settings settings;
  private final String prefix;
  private final Map<List<Object>, Open> open = new LinkedHashMap<>(16, 0.75f, true);
  private final List<String> begun = new ArrayList<>();
  private final List<String> finished = new ArrayList<>();
  private int count = 0;
  private long written = 0;

  SealedWriter(Settings settings, int partition, long task) {
    this.settings = settings;
    this.prefix = String.format("%s-%05d-%d-%s", settings.writeId(), partition, task, UUID.randomUUID());
  }

  void write(InternalRow row) throws IOException {
    List<Object> partition = new ArrayList<>(settings.partitions().size());
    for (Partition field : settings.partitions()) {
      Object value = field.of(row);
      partition.add(value instanceof byte[] bytes ? ByteBuffer.wrap(bytes.clone()) : value);
    }
    Open file = open.get(partition);
    if (file == null) {
      file = opened(partition);
    }
    file.writer.write(row);
    file.rows++;
    if (++written % CHECK_SIZE_EVERY == 0) {
      if (file.writer.getDataSize() >= settings.targetSize()) {
        open.remove(partition);
        finish(file);
      }
      while (open.size() > 1 && open.values().stream().mapToLong(one -> one.writer.getDataSize()).sum() > MOST_BYTES) {
        finishEldest();
      }
    }
  }

  private void finishEldest() throws IOException {
    finish(open.remove(open.keySet().iterator().next()));
  }

  private Open opened(List<Object> partition) throws IOException {
    if (open.size() >= (settings.clustered() ? 1 : MOST_OPEN)) {
      finishEldest();
    }
    Open file = new Open(partition, settings.folder() + "/" + prefix + "-" + count++ + ".parquet");
    begun.add(file.location);
    file.begin();
    open.put(partition, file);
    return file;
  }

  /** What was written, one JSON object a file; with their keys. */
  List<String> commit() throws IOException {
    for (Open file : open.values()) {
      finish(file);
    }
    open.clear();
    if (TaskContext.get() != null && TaskContext.get().isInterrupted()) {
      throw new IOException("the task was cancelled");  // nobody would hear of its files any more
    }
    return finished;
  }

  private void finish(Open file) throws IOException {
    file.writer.close();
    finished.add(file.described());
  }

  void abort() {
    for (Open file : open.values()) {
      try {
        file.writer.close();
      } catch (IOException | RuntimeException error) {
        // It is deleted below; why it could not be closed does not matter any more.
      }
    }
    open.clear();
    discard(begun, settings.conf().value());
  }

  private static void discard(List<String> locations, Configuration conf) {
    for (String location : locations) {
      try {
        Path path = SealedFile.hadoopPath(location);
        path.getFileSystem(conf).delete(path, false);
      } catch (IOException | RuntimeException error) {
        // An orphan that cannot be read without its key, which nobody has any more.
      }
    }
  }

  /** All files of a write that failed, also of tasks that committed when nobody listened any more. */
  static void discardAll(String folder, String writeId, Configuration conf) {
    try {
      Path path = SealedFile.hadoopPath(folder);
      FileStatus[] found = path.getFileSystem(conf).globStatus(new Path(path, writeId + "-*"));
      List<String> locations = new ArrayList<>();
      for (FileStatus one : found == null ? new FileStatus[0] : found) {
        locations.add(one.getPath().toString());
      }
      discard(locations, conf);
    } catch (IOException error) {
      // As above.
    }
  }

  private static byte[] random(int length) {
    byte[] bytes = new byte[length];
    RANDOM.nextBytes(bytes);
    return bytes;
  }

  // -- one file -----------------------------------------------------------------------------------

  private final class Open {
    final List<Object> partition;
    final String location;
    final byte[] key = settings.keyLength() == 0 ? null : random(settings.keyLength());
    final byte[] aadPrefix = random(16);
    ParquetWriter<InternalRow> writer;
    private Counted output;
    long rows = 0;

    Open(List<Object> partition, String location) {
      this.partition = partition;
      this.location = location;
    }

    void begin() throws IOException {
      Configuration conf = settings.conf().value();
      output = new Counted(HadoopOutputFile.fromPath(SealedFile.hadoopPath(location), conf));
      FileEncryptionProperties keys = key == null ? null : FileEncryptionProperties.builder(key)
          .withAADPrefix(aadPrefix)
          .withoutAADPrefixStorage()
          .build();
      Map<String, String> parquet = settings.parquet();
      writer = new Builder(output, settings.ids())
          .withConf(conf)
          .withEncryption(keys)
          .withWriteMode(ParquetFileWriter.Mode.CREATE)
          .withCompressionCodec(CompressionCodecName.fromConf(parquet.get("codec")))
          .withRowGroupSize(Long.parseLong(parquet.get("row-group-bytes")))
          .withPageSize(Integer.parseInt(parquet.get("page-bytes")))
          .withDictionaryPageSize(Integer.parseInt(parquet.get("dictionary-bytes")))
          .withPageRowCountLimit(Integer.parseInt(parquet.get("page-rows")))
          .build();
    }

    String described() {
      ObjectNode file = Bridge.object().put("location", location).put("length", output.length).put("rows", rows);
      if (key != null) {
        file.put("key", Base64.getEncoder().encodeToString(key));
        file.put("aad", Base64.getEncoder().encodeToString(aadPrefix));
      }
      ArrayNode values = file.putArray("partition");
      for (Object value : partition) {
        values.add(Bridge.JSON.<com.fasterxml.jackson.databind.JsonNode>valueToTree(plain(value)));
      }
      return file.toString();
    }

    private Object plain(Object value) {
      if (value instanceof UTF8String || value instanceof Decimal) {
        return value.toString();
      }
      return value instanceof ByteBuffer bytes ? Base64.getEncoder().encodeToString(bytes.array()) : value;
    }
  }

  private static final class Builder extends ParquetWriter.Builder<InternalRow, Builder> {
    private final Map<String, Integer> ids;

    Builder(OutputFile file, Map<String, Integer> ids) {
      super(file);
      this.ids = ids;
    }

    @Override
    protected Builder self() {
      return this;
    }

    @Override
    protected WriteSupport<InternalRow> getWriteSupport(Configuration conf) {
      return new Support(ids);
    }
  }

  /** Spark's own, with Iceberg's field ids on every level: Spark has no place for those of elements, keys and values. */
  private static final class Support extends ParquetWriteSupport {
    private final Map<String, Integer> ids;

    Support(Map<String, Integer> ids) {
      this.ids = ids;
    }

    @Override
    public WriteContext init(Configuration conf) {
      WriteContext made = super.init(conf);
      List<Type> fields = new ArrayList<>();
      for (Type field : made.getSchema().getFields()) {
        fields.add(withIds(field, field.getName()));
      }
      return new WriteContext(new MessageType(made.getSchema().getName(), fields), made.getExtraMetaData());
    }

    private Type withIds(Type type, String path) {
      Type made = type;
      if (!type.isPrimitive()) {
        List<Type> children = new ArrayList<>();
        for (Type child : type.asGroupType().getFields()) {
          children.add(withIds(child, path + "." + child.getName()));
        }
        made = type.asGroupType().withNewFields(children);
      }
      return ids.containsKey(path) ? made.withId(ids.get(path)) : made;
    }
  }

  /** Remembers how long the file became: the length that readers will trust comes from here, not from storage. */
  private static final class Counted implements OutputFile {
    private final OutputFile file;
    long length;

    Counted(OutputFile file) {
      this.file = file;
    }

    @Override
    public PositionOutputStream create(long blockSize) throws IOException {
      return counting(file.create(blockSize));
    }

    @Override
    public PositionOutputStream createOrOverwrite(long blockSize) throws IOException {
      return counting(file.createOrOverwrite(blockSize));
    }

    private PositionOutputStream counting(PositionOutputStream out) {
      return new PositionOutputStream() {
        @Override
        public long getPos() throws IOException {
          return out.getPos();
        }

        @Override
        public void write(int one) throws IOException {
          out.write(one);
          length++;
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
          out.write(bytes, from, count);
          length += count;
        }

        @Override
        public void flush() throws IOException {
          out.flush();
        }

        @Override
        public void close() throws IOException {
          out.close();
        }
      };
    }

    @Override
    public boolean supportsBlockSize() {
      return file.supportsBlockSize();
    }

    @Override
    public long defaultBlockSize() {
      return file.defaultBlockSize();
    }

    @Override
    public String getPath() {
      return file.getPath();
    }
  }
}
