package sealberg.write;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;

/** A data file that is being written: rows in, sealed bytes out. */
interface DataFileWriter {
  void write(InternalRow row) throws IOException;

  /** About how large the file is by now. */
  long getDataSize();

  void close() throws IOException;
}
