package sealberg.read;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.sql.SparkSession;
import org.roaringbitmap.RoaringBitmap;
import sealberg.crypto.FileIntegrityException;
import sealberg.crypto.FooterKeyFactory;
import sealberg.crypto.PinnedFooterFileSystem;
import sealberg.storage.TableStorage;
import sealberg.worker.PythonWorker;

/**
 * A piece of a data file that a task reads, with the key of that file and what Python knows of its
 * rows.
 *
 * @param rowCount of the whole file
 * @param key null for a file of a table that is not encrypted
 * @param deleted the positions of deleted rows, a serialized bitmap; null if there are none
 * @param python null where Spark's own reader and the above are all that it takes
 */
public record FileSplit(
    String location,
    long fileLength,
    long start,
    long length,
    long rowCount,
    byte[] key,
    byte[] aadPrefix,
    byte[] deleted,
    Long firstRowId,
    Long sequenceNumber,
    TableStorage storage,
    Python python)
    implements Serializable {

  /**
   * What a Python process beside the task does: "rows" reads the file, "positions" finds its
   * deleted rows.
   */
  public record Python(String verb, String program, byte[] table, byte[] work)
      implements Serializable {
    public PythonWorker asked(TableStorage storage, Configuration conf, byte[]... more)
        throws IOException {
      byte[][] about = new byte[more.length + 2][];
      about[0] = table;
      about[1] = work;
      System.arraycopy(more, 0, about, 2, more.length);
      PythonWorker worker = PythonWorker.of(program, storage, conf);
      worker.ask(verb, about);
      return worker;
    }
  }

  /** The whole file. `program`, `table` and `storage` are the same for all files of a plan. */
  static FileSplit of(JsonNode file, String program, byte[] table, TableStorage storage) {
    long length = file.get("length").asLong();
    return new FileSplit(
        file.get("location").asText(),
        length,
        0,
        length,
        file.get("rows").asLong(),
        bytes(file.get("key")),
        bytes(file.get("aad")),
        bytes(file.get("deleted")),
        number(file.get("first-row-id")),
        number(file.get("sequence-number")),
        storage,
        file.has("verb")
            ? new Python(file.get("verb").asText(), program, table, bytes(file.get("work")))
            : null);
  }

  FileSplit piece(long from, long size) {
    return new FileSplit(
        location,
        fileLength,
        from,
        size,
        rowCount,
        key,
        aadPrefix,
        deleted,
        firstRowId,
        sequenceNumber,
        storage,
        python);
  }

  /** As Parquet's reader sees it. */
  Path readPath() {
    return PinnedFooterFileSystem.path(this);
  }

  /** Rows of the file, the first and what is behind the last. */
  record Span(long first, long end) {}

  /** The rows of this piece. Where it is not the whole file, only the footer knows. */
  Span rows(Configuration conf) throws IOException {
    if (start == 0 && length == fileLength) {
      return new Span(0, rowCount);
    }
    try (ParquetFileReader footer = FooterKeyFactory.with(this, () -> footer(conf))) {
      List<BlockMetaData> groups = footer.getRowGroups();
      long first = groups.isEmpty() ? 0 : groups.get(0).getRowIndexOffset();
      return new Span(first, first + groups.stream().mapToLong(BlockMetaData::getRowCount).sum());
    }
  }

  private ParquetFileReader footer(Configuration conf) {
    try {
      ParquetReadOptions options =
          HadoopReadOptions.builder(conf, readPath()).withRange(start, start + length).build();
      return ParquetFileReader.open(HadoopInputFile.fromPath(readPath(), conf), options);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  public static Configuration conf(SparkSession spark) {
    return ((org.apache.spark.sql.classic.SparkSession) spark).sessionState().newHadoopConf();
  }

  /** Null if all rows are there. */
  RoaringBitmap deletedRows(Configuration conf) throws IOException {
    byte[] found = deleted;
    if (python != null) {
      try (PythonWorker worker = python.asked(storage, conf)) {
        found = worker.result();
      }
    }
    if (found == null) {
      return null;
    }
    RoaringBitmap bitmap = new RoaringBitmap();
    try {
      bitmap.deserialize(java.nio.ByteBuffer.wrap(found));
    } catch (IOException error) {
      throw new FileIntegrityException(location + ": its deleted rows arrived damaged", error);
    }
    return bitmap;
  }

  /** Never the key. */
  @Override
  public String toString() {
    return location;
  }

  static byte[] bytes(JsonNode base64) {
    return base64 == null || base64.isNull()
        ? null
        : java.util.Base64.getDecoder().decode(base64.asText());
  }

  private static Long number(JsonNode number) {
    return number == null || number.isNull() ? null : number.asLong();
  }
}
