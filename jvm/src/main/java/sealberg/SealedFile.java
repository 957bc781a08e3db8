package sealberg;

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

/** A piece of a data file that a task reads, with the key of that file and what Python knows of its rows. */
final class SealedFile implements Serializable {
  final String location;
  final long fileLength;
  final long start;
  final long length;
  final long rowCount;  // of the whole file
  final byte[] key;  // null for a file of a table that is not encrypted
  final byte[] aadPrefix;
  final byte[] deleted;  // the positions of deleted rows, a serialized bitmap; null if there are none
  final Long firstRowId;
  final Long sequenceNumber;
  final Storage storage;
  final Python python;  // null where Spark's own reader and the above are all that it takes

  /** What a Python process beside the task does: "rows" reads the file, "positions" finds its deleted rows. */
  record Python(String verb, String program, byte[] table, byte[] work) implements Serializable {
    Worker asked(Storage storage, Configuration conf, byte[]... more) throws IOException {
      byte[][] about = new byte[more.length + 2][];
      about[0] = table;
      about[1] = work;
      System.arraycopy(more, 0, about, 2, more.length);
      Worker worker = Worker.of(program, storage, conf);
      worker.ask(verb, about);
      return worker;
    }
  }

  /** `program`, `table` and `storage` are the same for all files of a plan. */
  SealedFile(JsonNode file, String program, byte[] table, Storage storage) {
    this.storage = storage;
    location = file.get("location").asText();
    fileLength = file.get("length").asLong();
    start = 0;
    length = fileLength;
    rowCount = file.get("rows").asLong();
    key = bytes(file.get("key"));
    aadPrefix = bytes(file.get("aad"));
    deleted = bytes(file.get("deleted"));
    firstRowId = number(file.get("first-row-id"));
    sequenceNumber = number(file.get("sequence-number"));
    python = file.has("verb") ? new Python(file.get("verb").asText(), program, table, bytes(file.get("work"))) : null;
  }

  private SealedFile(SealedFile whole, long start, long length) {
    this.location = whole.location;
    this.fileLength = whole.fileLength;
    this.start = start;
    this.length = length;
    this.rowCount = whole.rowCount;
    this.key = whole.key;
    this.aadPrefix = whole.aadPrefix;
    this.deleted = whole.deleted;
    this.firstRowId = whole.firstRowId;
    this.sequenceNumber = whole.sequenceNumber;
    this.storage = whole.storage;
    this.python = whole.python;
  }

  SealedFile piece(long start, long length) {
    return new SealedFile(this, start, length);
  }

  /** As Parquet's reader sees it. */
  Path readPath() {
    return SealedFs.path(this);
  }

  /** Rows of the file, the first and what is behind the last. */
  record Span(long first, long end) {}

  /** The rows of this piece. Where it is not the whole file, only the footer knows. */
  Span rows(Configuration conf) throws IOException {
    if (start == 0 && length == fileLength) {
      return new Span(0, rowCount);
    }
    try (ParquetFileReader footer = SealedKeys.with(this, () -> footer(conf))) {
      List<BlockMetaData> groups = footer.getRowGroups();
      long first = groups.isEmpty() ? 0 : groups.get(0).getRowIndexOffset();
      return new Span(first, first + groups.stream().mapToLong(BlockMetaData::getRowCount).sum());
    }
  }

  private ParquetFileReader footer(Configuration conf) {
    try {
      ParquetReadOptions options = HadoopReadOptions.builder(conf, readPath()).withRange(start, start + length).build();
      return ParquetFileReader.open(HadoopInputFile.fromPath(readPath(), conf), options);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static Configuration conf(SparkSession spark) {
    return ((org.apache.spark.sql.classic.SparkSession) spark).sessionState().newHadoopConf();
  }

  /** Null if all rows are there. */
  RoaringBitmap deletedRows(Configuration conf) throws IOException {
    byte[] found = deleted;
    if (python != null) {
      try (Worker worker = python.asked(storage, conf)) {
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
      throw new SealedFileException(location + ": its deleted rows arrived damaged", error);
    }
    return bitmap;
  }

  /** Never the key. */
  @Override
  public String toString() {
    return location;
  }

  static byte[] bytes(JsonNode base64) {
    return base64 == null || base64.isNull() ? null : java.util.Base64.getDecoder().decode(base64.asText());
  }

  private static Long number(JsonNode number) {
    return number == null || number.isNull() ? null : number.asLong();
  }
}
