package sealberg;

import java.io.IOException;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import org.apache.spark.sql.catalyst.InternalRow;

/** A data file that is being written: rows in, sealed bytes out. */
interface FileOut {
  void write(InternalRow row) throws IOException;

  /** About how large the file is by now. */
  long getDataSize();

  void close() throws IOException;

  /** Remembers how long the file became: the length that readers will trust comes from here, not from storage. */
  static final class Counted implements OutputFile {
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
