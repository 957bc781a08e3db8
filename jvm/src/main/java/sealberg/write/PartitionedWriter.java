package sealberg.write;

import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.crypto.FileEncryptionProperties;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.SerializableConfiguration;
import sealberg.bridge.WriteMessages.AvroOptions;
import sealberg.bridge.WriteMessages.ParquetOptions;
import sealberg.bridge.WriteMessages.WrittenFile;
import sealberg.catalog.PartitionTransforms;
import sealberg.catalog.RowValue;
import sealberg.crypto.FileIntegrityException;
import sealberg.storage.StoredFile;
import sealberg.storage.TableStorage;
import sealberg.worker.PythonWorker;

/**
 * Writes the rows of one task to files. Each file has one partition and its own key, which is made
 * here.
 *
 * <pre>
 *   row ──transforms──> partition ──> its open file ──large enough──> closed: location, length, key, partition
 * </pre>
 *
 * Rows that are sorted by partition need one open file at a time. Otherwise several files are open,
 * and the least recently used file is closed when there are too many of them or they buffer too
 * much. A task either returns its files with their keys when it commits, or deletes them. File
 * names reveal nothing about their content, not even the partition.
 */
final class PartitionedWriter {
  private static final SecureRandom RANDOM = new SecureRandom();
  private static final int MOST_OPEN = 32;
  private static final long MOST_BYTES = 256L << 20;
  private static final int CHECK_SIZE_EVERY = 1000;

  /** What a task needs to write files. It contains no key. */
  record Settings(
      SerializableConfiguration conf,
      TableStorage storage,
      StructType schema,
      List<Partition> partitions,
      Map<String, Integer> fieldIds,
      Map<String, Integer> fixedLengths,
      String folder,
      String writeId,
      int keyLength,
      long targetSize,
      boolean clustered,
      ParquetOptions parquet,
      AvroOptions avro)
      implements Serializable {
    String extension() {
      return avro == null ? ".parquet" : ".avro";
    }
  }

  /** A partition field: the position of its column in a row, and the transform. */
  record Partition(String transform, int width, int[] path, DataType[] types)
      implements Serializable {
    /**
     * `uuid` is true for a UUID column: Spark has its value as text, and the partition is computed
     * from its bytes.
     */
    Object of(InternalRow row, boolean uuid) {
      InternalRow inside = row;
      for (int i = 0; i < path.length - 1; i++) {
        if (inside.isNullAt(path[i])) {
          return null;
        }
        inside = inside.getStruct(path[i], ((StructType) types[i]).length());
      }
      int at = path[path.length - 1];
      DataType type = types[path.length - 1];
      Object value = RowValue.of(inside, at, type);
      return PartitionTransforms.apply(
          transform,
          width,
          type,
          uuid && value != null
              ? ParquetFileWriter.uuid(value.toString(), "of a partition")
              : value);
    }

    String name(StructType schema) {
      StringBuilder name = new StringBuilder();
      StructType inside = schema;
      for (int i = 0; i < path.length; i++) {
        name.append(i == 0 ? "" : ".").append(inside.apply(path[i]).name());
        inside = types[i] instanceof StructType below ? below : null;
      }
      return name.toString();
    }
  }

  private final Settings settings;
  private final String prefix;
  private final Map<List<Object>, Open> open = new LinkedHashMap<>(16, 0.75f, true);
  private final List<String> begun = new ArrayList<>();
  private final List<WrittenFile> finished = new ArrayList<>();
  private final boolean[] ofUuid;
  private boolean scattered =
      false; // Spark sorts by the buckets of the text of UUIDs, which differ from the buckets of
  // the UUIDs
  private PythonWorker python;
  private int count = 0;
  private long written = 0;

  PartitionedWriter(Settings settings, int partition, long task) {
    this.settings = settings;
    this.ofUuid = new boolean[settings.partitions().size()];
    for (int i = 0; i < ofUuid.length; i++) {
      String column = settings.partitions().get(i).name(settings.schema());
      ofUuid[i] = Integer.valueOf(-1).equals(settings.fixedLengths().get(column));
      scattered |= ofUuid[i] && settings.partitions().get(i).transform().equals("bucket");
    }
    this.prefix =
        String.format("%s-%05d-%d-%s", settings.writeId(), partition, task, UUID.randomUUID());
  }

  void write(InternalRow row) throws IOException {
    List<Object> partition = new ArrayList<>(settings.partitions().size());
    for (int i = 0; i < ofUuid.length; i++) {
      Object value = settings.partitions().get(i).of(row, ofUuid[i]);
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
      while (open.size() > 1
          && open.values().stream().mapToLong(one -> one.writer.getDataSize()).sum() > MOST_BYTES) {
        finishEldest();
      }
    }
  }

  private void finishEldest() throws IOException {
    finish(open.remove(open.keySet().iterator().next()));
  }

  private Open opened(List<Object> partition) throws IOException {
    if (open.size() >= (settings.clustered() && !scattered ? 1 : MOST_OPEN)) {
      finishEldest();
    }
    Open file =
        new Open(
            partition, settings.folder() + "/" + prefix + "-" + count++ + settings.extension());
    begun.add(file.location);
    file.begin();
    open.put(partition, file);
    return file;
  }

  /** Closes all files and returns them with their keys. */
  List<WrittenFile> commit() throws IOException {
    for (Open file : open.values()) {
      finish(file);
    }
    open.clear();
    close();
    if (TaskContext.get() != null && TaskContext.get().isInterrupted()) {
      throw new IOException(
          "the task was cancelled before Spark committed its files"); // Spark ignores the result of
      // a cancelled task
    }
    return finished;
  }

  private void finish(Open file) throws IOException {
    file.writer.close();
    finished.add(file.written());
  }

  void abort() {
    for (Open file : open.values()) {
      try {
        file.writer.close();
      } catch (IOException | RuntimeException error) {
        // The file is deleted below, so the reason does not matter.
      }
    }
    open.clear();
    if (python != null) {
      python.end();
    }
    discard(begun, settings.storage(), settings.conf().value());
  }

  private void close() {
    if (python != null) {
      python.close();
      python = null;
    }
  }

  /** The worker for all Avro files of the task. */
  private PythonWorker python() throws IOException {
    if (python == null) {
      python =
          PythonWorker.of(settings.avro().python(), settings.storage(), settings.conf().value());
    }
    return python;
  }

  private static void discard(List<String> locations, TableStorage storage, Configuration conf) {
    for (String location : locations) {
      try {
        Path path = TableStorage.path(location, conf);
        storage.fileSystem(path, conf).fs().delete(path, false);
      } catch (IOException | RuntimeException error) {
        // An orphan file that nobody can decrypt: its key was never stored.
      }
    }
  }

  /**
   * Deletes the files of a write that no commit refers to: files of processes that were killed, and
   * of tasks that committed too late.
   */
  static void discardAll(
      String folder, String writeId, Set<String> kept, TableStorage storage, Configuration conf) {
    try {
      Path path = TableStorage.path(folder, conf);
      // Not by a pattern: the folder may have characters of one.
      FileStatus[] found =
          storage
              .fileSystem(path, conf)
              .fs()
              .listStatus(path, one -> one.getName().startsWith(writeId + "-"));
      List<String> locations = new ArrayList<>();
      for (FileStatus one : found) {
        if (one.isFile() && !kept.contains(one.getPath().getName())) {
          locations.add(one.getPath().toString());
        }
      }
      discard(locations, storage, conf);
    } catch (IOException error) {
      // Orphan files that nobody can decrypt, as above.
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
    DataFileWriter writer;
    private StoredFile output;
    long rows = 0;

    Open(List<Object> partition, String location) {
      this.partition = partition;
      this.location = location;
    }

    void begin() throws IOException {
      Configuration conf = settings.conf().value();
      output = new StoredFile(location, settings.storage(), conf);
      if (settings.avro() != null) {
        if (key == null) {
          throw new FileIntegrityException(
              location + ": internal error: no encryption key for an Avro file");
        }
        byte[] payload = settings.avro().payload();
        writer =
            new AvroFileWriter(
                python(), count, output.create(0), settings.schema(), payload, key, aadPrefix);
        return;
      }
      FileEncryptionProperties keys =
          key == null
              ? null
              : FileEncryptionProperties.builder(key)
                  .withAADPrefix(aadPrefix)
                  .withoutAADPrefixStorage()
                  .build();
      writer =
          new ParquetFileWriter(
              output, conf, keys, settings.fieldIds(), settings.fixedLengths(), settings.parquet());
    }

    WrittenFile written() {
      List<Object> values = new ArrayList<>();
      partition.forEach(value -> values.add(plain(value)));
      byte[] footer = settings.avro() == null ? output.footer() : null;
      return new WrittenFile(
          location, output.length(), rows, values, key, key == null ? null : aadPrefix, footer);
    }

    private Object plain(Object value) {
      if (value instanceof UTF8String || value instanceof Decimal) {
        return value.toString();
      }
      return value instanceof ByteBuffer bytes
          ? Base64.getEncoder().encodeToString(bytes.array())
          : value;
    }
  }
}
