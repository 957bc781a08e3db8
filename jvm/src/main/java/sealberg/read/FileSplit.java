package sealberg.read;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.roaringbitmap.RoaringBitmap;
import sealberg.bridge.ScanMessages.PlannedFile;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.ScanMessages.WorkerVerb;
import sealberg.catalog.JsonRows;
import sealberg.catalog.MetadataColumns;
import sealberg.crypto.FileIntegrityException;
import sealberg.crypto.FooterKeyFactory;
import sealberg.crypto.PinnedFooterFileSystem;
import sealberg.storage.TableStorage;
import sealberg.worker.PythonWorker;

/**
 * A part of a data file that a task reads, with the key of the file, its deleted rows and its
 * inherited values.
 *
 * @param rowCount of the whole file
 * @param key null for a file of a table that is not encrypted
 * @param deleted the positions of deleted rows, a serialized bitmap; null if there are none
 * @param partition the values of _partition; null if the query does not ask for that column
 * @param python null if Spark's own reader needs no Python worker for the file
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
    Integer specId,
    InternalRow partition,
    TableStorage storage,
    Python python)
    implements Serializable {

  /** The request to the Python worker of the task, with payloads that only Python understands. */
  public record Python(WorkerVerb verb, String program, byte[] table, byte[] file)
      implements Serializable {}

  /** The Python worker of the task, asked about this part of the file. */
  public PythonWorker asked(Configuration conf, byte[]... more) throws IOException {
    List<byte[]> about = new ArrayList<>(List.of(python.table(), python.file()));
    about.addAll(List.of(more));
    if (python.verb().takesPart()) {
      about.add(ByteBuffer.allocate(2 * Long.BYTES).putLong(start).putLong(start + length).array());
    }
    PythonWorker worker = PythonWorker.of(python.program(), storage, conf);
    worker.ask(python.verb().text(), about.toArray(byte[][]::new));
    return worker;
  }

  /** Whether several tasks may read the file. */
  boolean isSplittable() {
    return python == null || python.verb().takesPart();
  }

  /** The whole file; {@code required} are the columns of the query. */
  static FileSplit of(PlannedFile file, ScanPlan plan, TableStorage storage, StructType required) {
    Python python =
        file.workerVerb() == null
            ? null
            : new Python(
                file.workerVerb(), plan.python(), plan.tablePayload(), file.workerPayload());
    return new FileSplit(
        file.location(),
        file.fileLength(),
        0,
        file.fileLength(),
        file.recordCount(),
        file.key(),
        file.aadPrefix(),
        file.deletedPositions(),
        file.firstRowId(),
        file.sequenceNumber(),
        file.specId(),
        file.partition() == null ? null : JsonRows.row(file.partition(), partition(required)),
        storage,
        python);
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
        specId,
        partition,
        storage,
        python);
  }

  /** The fields of _partition that the query asks for. */
  private static StructType partition(StructType required) {
    return (StructType) required.apply(MetadataColumns.PARTITION).dataType();
  }

  /** As Spark's Parquet reader expects it. */
  Path readPath() {
    return PinnedFooterFileSystem.path(this);
  }

  /** A range of row positions in the file, without its end. */
  record Span(long first, long end) {}

  /** The row positions of this part; read from the footer if the part is not the whole file. */
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

  /** Null if no row is deleted. */
  RoaringBitmap deletedRows(Configuration conf) throws IOException {
    byte[] found = deleted;
    if (python != null) {
      try (PythonWorker worker = asked(conf)) {
        found = worker.result();
      }
    }
    if (found == null) {
      return null;
    }
    RoaringBitmap bitmap = new RoaringBitmap();
    try {
      bitmap.deserialize(ByteBuffer.wrap(found));
    } catch (IOException error) {
      throw new FileIntegrityException(
          location + ": internal error: the bitmap of deleted rows is not valid", error);
    }
    return bitmap;
  }

  /** Does not show the key. */
  @Override
  public String toString() {
    return location;
  }
}
