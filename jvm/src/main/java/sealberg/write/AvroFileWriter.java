package sealberg.write;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.arrow.ArrowWriter;
import org.apache.spark.sql.types.StructType;
import sealberg.catalog.MetadataColumns;
import sealberg.worker.PythonWorker;

/**
 * Writes an Avro file: the Python worker of the task encodes and encrypts a batch of rows at a
 * time.
 */
final class AvroFileWriter implements DataFileWriter {
  private static final int MOST_ROWS = 4096;
  private static final int MOST_BYTES = 4 << 20;

  private final PythonWorker worker;
  private final OutputStream to;
  private final byte[] number;
  private final ArrowWriter rows;
  private int waiting = 0;
  private long length = 0;

  /**
   * `number` identifies the file among the open files of the task. `payload` comes from the driver;
   * the task makes the key.
   */
  AvroFileWriter(
      PythonWorker worker,
      int number,
      OutputStream to,
      StructType schema,
      byte[] payload,
      byte[] key,
      byte[] aadPrefix)
      throws IOException {
    this.worker = worker;
    this.to = to;
    this.number = ByteBuffer.allocate(4).putInt(number).array();
    this.rows = ArrowWriter.create(schema, "UTC", true, false);
    try {
      boolean moved = List.of(schema.fieldNames()).contains(MetadataColumns.ROW_ID);
      ask("open-file", payload, new byte[moved ? 1 : 0], key, aadPrefix);
    } catch (IOException | RuntimeException error) {
      rows.root().close();
      throw error;
    }
  }

  @Override
  public void write(InternalRow row) throws IOException {
    rows.write(row);
    if (++waiting >= MOST_ROWS || waiting % 64 == 0 && rows.sizeInBytes() > MOST_BYTES) {
      flush();
    }
  }

  private void flush() throws IOException {
    rows.finish();
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ArrowStreamWriter stream = new ArrowStreamWriter(rows.root(), null, bytes)) {
      stream.writeBatch();
    }
    rows.reset();
    waiting = 0;
    ask("write-file", bytes.toByteArray());
  }

  @Override
  public long getDataSize() {
    return length + (waiting == 0 ? 0 : rows.sizeInBytes());
  }

  /** Checks that the length that Python reports equals the number of bytes that were stored. */
  @Override
  public void close() throws IOException {
    try {
      if (waiting > 0) {
        flush();
      }
      long encoded = ByteBuffer.wrap(ask("finish-file")).getLong();
      if (encoded != length) {
        throw new IOException(
            "internal error: the Python worker encoded "
                + encoded
                + " bytes of a file and sent "
                + length);
      }
    } finally {
      rows.root().close();
      to.close();
    }
  }

  private byte[] ask(String verb, byte[]... about) throws IOException {
    byte[][] all = new byte[about.length + 1][];
    all[0] = number;
    System.arraycopy(about, 0, all, 1, about.length);
    worker.ask(verb, all);
    for (byte[] sealed = worker.next(); sealed != null; sealed = worker.next()) {
      to.write(sealed);
      length += sealed.length;
    }
    return worker.result();
  }
}
