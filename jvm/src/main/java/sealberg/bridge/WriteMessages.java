package sealberg.bridge;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.bridge.TableMessages.TableHandle;

/** Plans of writes, and commits. Python's {@code writes}. */
public final class WriteMessages {
  private WriteMessages() {}

  public enum WriteMode {
    APPEND,
    OVERWRITE,
    OVERWRITE_PARTITIONS,
    COPY_ON_WRITE,
    MERGE_ON_READ
  }

  public enum Command {
    DELETE,
    UPDATE,
    MERGE
  }

  /** How Spark distributes rows to the tasks that write them. */
  public enum Distribution {
    NONE,
    HASH,
    RANGE
  }

  /** A partition field, with the names from the top of the schema down to its column. */
  public record PartitionPath(String transform, int width, List<String> path) implements Message {}

  /** A field of the table's sort order; {@code column} is quoted as Spark parses it. */
  public record SortField(
      String transform, int width, String column, boolean descending, boolean nullsFirst)
      implements Message {}

  /** A bloom filter of one column; {@code ndv} is the number of distinct values. */
  public record BloomFilterOptions(double fpp, @Nullable Long ndv)
      implements Message, Serializable {}

  /** How Parquet files are written; bloom filters are by the path of their column. */
  public record ParquetOptions(
      String codec,
      long rowGroupBytes,
      int pageBytes,
      int dictionaryBytes,
      int pageRows,
      int bloomMaxBytes,
      boolean bloomAdaptive,
      Map<String, BloomFilterOptions> bloomFilters,
      @Nullable Integer level)
      implements Message, Serializable {}

  /**
   * How the Python worker writes Avro files: the program to start, and what it alone understands.
   */
  public record AvroOptions(String python, byte[] payload) implements Message, Serializable {}

  /**
   * What the tasks of a write must know; no key is among it.
   *
   * @param fieldIds of columns, elements, keys and values, by their path in a Parquet file
   * @param fixedLengths of fixed columns, by their path; -1 for a uuid
   * @param clustered whether each task gets its rows sorted by partition
   * @param keyLength of data encryption keys, in bytes; 0 for a table that is not encrypted
   * @param parquet null where the files are Avro files
   * @param avro null where the files are Parquet files
   * @param columnPositions of a table that accepts any schema: where each column is in a row of the
   *     query, or -1
   */
  public record WritePlan(
      StructType schema,
      Map<String, Integer> fieldIds,
      Map<String, Integer> fixedLengths,
      List<PartitionPath> partitions,
      Distribution distribution,
      boolean clustered,
      List<SortField> order,
      String folder,
      StorageSettings storage,
      int keyLength,
      long targetFileSize,
      int schemaId,
      int specId,
      int sortOrderId,
      @Nullable ParquetOptions parquet,
      @Nullable AvroOptions avro,
      @Nullable Long advisoryPartitionSize,
      @Nullable List<Integer> columnPositions)
      implements Message {}

  /**
   * One write, as Spark has planned it; the same at its beginning and at its commit.
   *
   * @param command of a row-level operation; null for INSERT
   * @param querySchema of the rows that come; null for a row-level operation
   * @param filters that choose the rows of an overwrite
   */
  public record WriteRequest(
      TableHandle handle,
      WriteMode mode,
      Map<String, String> options,
      Map<String, String> settings,
      boolean caseSensitive,
      @Nullable Command command,
      @Nullable StructType querySchema,
      @Nullable List<FilterMessage> filters)
      implements Message {}

  public record BeginWrite(WriteRequest write) implements Request<WritePlan> {
    @Override
    public List<String> table() {
      return write.handle().table();
    }
  }

  /**
   * A data file that a task has written.
   *
   * @param partition its values; bytes are base64, decimals are texts
   * @param key null for a table that is not encrypted
   * @param footer of a Parquet file, where fetching it from the store would cost a request
   */
  public record WrittenFile(
      String location,
      long fileLength,
      long recordCount,
      List<Object> partition,
      @Nullable byte[] key,
      @Nullable byte[] aadPrefix,
      @Nullable byte[] footer)
      implements Message, Serializable {
    @Override
    public String toString() {
      return location; // and not the key
    }
  }

  /**
   * Rows of one data file that a merge-on-read command deletes; {@code positions} is a serialized
   * bitmap.
   */
  public record DeletedPositions(String location, byte[] positions)
      implements Message, Serializable {}

  /** One batch of a streaming query. */
  public record StreamEpoch(String queryId, long epochId) implements Message {}

  /**
   * The files of all tasks, as one commit.
   *
   * @param scanFilters of the scan of a row-level operation
   * @param replaced the locations that a copy-on-write command has read whole
   */
  public record CommitRequest(
      WriteRequest write,
      int schemaId,
      int specId,
      int sortOrderId,
      List<WrittenFile> files,
      List<DeletedPositions> deleted,
      @Nullable List<FilterMessage> scanFilters,
      @Nullable List<String> replaced,
      @Nullable StreamEpoch epoch)
      implements Request<Void> {
    @Override
    public List<String> table() {
      return write.handle().table();
    }

    @Override
    public String toString() {
      return files.size() + " files"; // and not their keys
    }
  }

  /** DELETE of whole files, which needs no task. */
  public record DeleteWhere(
      TableHandle handle, List<FilterMessage> filters, Map<String, String> settings)
      implements Request<Void> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /** The answer says whether the filters match whole files only, as the partitions tell. */
  public record CanDeleteWhere(
      TableHandle handle, List<FilterMessage> filters, Map<String, String> settings)
      implements Request.OfRead<Boolean> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
