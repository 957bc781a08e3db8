package sealberg.worker;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Iterator;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import sealberg.read.FileSplit;

/** A file that Python reads: its rows without deleted rows, in the requested columns. */
public final class PythonFileReader implements Iterator<ColumnarBatch>, AutoCloseable {
  private final PythonWorker worker;
  private final BufferAllocator memory =
      ArrowUtils.rootAllocator().newChildAllocator("sealberg", 0, Long.MAX_VALUE);
  private ArrowStreamReader current;
  private byte[] next;
  private Iterator<InternalRow> rows = Collections.emptyIterator();

  public PythonFileReader(FileSplit file, StructType required, Configuration conf)
      throws IOException {
    worker = file.asked(conf, required.json().getBytes(StandardCharsets.UTF_8));
    try {
      next = worker.next();
    } catch (IOException | RuntimeException error) {
      close();
      throw error;
    }
  }

  @Override
  public boolean hasNext() {
    return next != null;
  }

  /** The batch is valid until the next call. */
  @Override
  public ColumnarBatch next() {
    try {
      free();
      current = new ArrowStreamReader(new ByteArrayInputStream(next), memory);
      current.loadNextBatch();
      VectorSchemaRoot root = current.getVectorSchemaRoot();
      ColumnVector[] columns =
          root.getFieldVectors().stream().map(ArrowColumnVector::new).toArray(ColumnVector[]::new);
      next = worker.next();
      return new ColumnarBatch(columns, root.getRowCount());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** The rows of all batches, one by one. */
  public Iterator<InternalRow> rows() {
    return new Iterator<>() {
      @Override
      public boolean hasNext() {
        while (!rows.hasNext() && PythonFileReader.this.hasNext()) {
          rows = PythonFileReader.this.next().rowIterator();
        }
        return rows.hasNext();
      }

      @Override
      public InternalRow next() {
        return rows.next();
      }
    };
  }

  private void free() throws IOException {
    if (current != null) {
      current.close();
      current = null;
    }
  }

  @Override
  public void close() {
    worker.close();
    try {
      free();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    memory.close();
  }
}
