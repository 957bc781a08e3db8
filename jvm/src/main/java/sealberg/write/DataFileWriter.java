package sealberg.write;

import java.io.IOException;
import org.apache.spark.sql.catalyst.InternalRow;

/** Writes one data file: rows in, encrypted bytes out. */
interface DataFileWriter {
  void write(InternalRow row) throws IOException;

  /** The approximate size of the file so far. */
  long getDataSize();

  void close() throws IOException;
}
