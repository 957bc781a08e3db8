package sealberg.storage;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.PositionOutputStream;
import sealberg.bridge.PythonBridge;

/**
 * A file in storage that a task reads with few requests, or writes once.
 *
 * <pre>
 *   read    the length is known, so an object store gets range requests only, without a HEAD
 *   write   the name is new, so nothing is checked, listed or renamed: one PUT, or the parts of an upload
 * </pre>
 *
 * As an output it counts the bytes, because the length that readers trust must not come from
 * storage. It also keeps the last bytes, so that a commit need not fetch the footer from an object
 * store.
 */
public final class StoredFile implements OutputFile {
  private static final Set<String> OBJECT_STORES =
      Set.of("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs");

  private static final Set<String> BLOCK_STORES = Set.of("hdfs", "webhdfs", "viewfs");

  private static final int TAIL = 1 << 18;
  private static final int END = 8; // the length of a footer, and the magic

  private final String location;
  private final TableStorage storage;
  private final Configuration conf;
  private byte[] tail; // a ring buffer; null if reading back what was stored is cheap
  private long length;

  public StoredFile(String location, TableStorage storage, Configuration conf) {
    this.location = location;
    this.storage = storage;
    this.conf = conf;
  }

  /** The number of bytes written. */
  public long length() {
    return length;
  }

  /** Whether asking for the length of a file is a request that costs as much as a read. */
  public static boolean isObject(Path path) {
    return OBJECT_STORES.contains(String.valueOf(path.toUri().getScheme()));
  }

  // -- read
  // -----------------------------------------------------------------------------------------------

  public static FSDataInputStream open(
      TableStorage storage, Path path, Configuration conf, long length) throws IOException {
    return open(storage.fileSystem(path, conf), path, length);
  }

  /** A negative length means that the length is unknown. */
  public static FSDataInputStream open(FileSystemCache.Held held, Path path, long length)
      throws IOException {
    FutureDataInputStreamBuilder builder =
        held.fs()
            .openFile(path)
            .opt("fs.option.openfile.read.policy", "parquet, columnar, vector, random");
    if (length >= 0) {
      builder.optLong("fs.option.openfile.length", length);
    }
    try {
      return new HeldInput(builder.build().get(), held);
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
      throw (IOException)
          new InterruptedIOException("interrupted while opening " + path).initCause(error);
    } catch (ExecutionException error) {
      if (error.getCause() instanceof IOException cause) {
        throw cause;
      }
      throw PythonBridge.raised(error.getCause() instanceof Exception cause ? cause : error);
    }
  }

  /** A stream that keeps its file system open. */
  private static final class HeldInput extends FSDataInputStream {
    @SuppressWarnings("unused")
    private final FileSystemCache.Held held;

    HeldInput(FSDataInputStream in, FileSystemCache.Held held) {
      super(in);
      this.held = held;
    }

    /** Only the wrapped stream knows whether it can read into a ByteBuffer. */
    @Override
    public InputStream getWrappedStream() {
      return ((FSDataInputStream) super.getWrappedStream()).getWrappedStream();
    }
  }

  // -- write
  // ----------------------------------------------------------------------------------------------

  @Override
  public PositionOutputStream create(long blockSize) throws IOException {
    Path path = TableStorage.path(location, conf);
    FileSystemCache.Held held = storage.fileSystem(path, conf);
    boolean object = isObject(path);
    tail = object ? new byte[TAIL] : null;
    // The name has a random part, so an object store need not check whether it exists.
    FSDataOutputStreamBuilder<?, ?> builder =
        held.fs().createFile(path).recursive().overwrite(object);
    if (supportsBlockSize() && blockSize > 0) {
      builder.blockSize(Math.max(blockSize, defaultBlockSize()));
    }
    if (object) {
      builder.opt("fs.s3a.create.performance", true);
    }
    return new Counting(builder.build(), held);
  }

  @Override
  public PositionOutputStream createOrOverwrite(long blockSize) {
    throw new UnsupportedOperationException("internal error: a data file is never overwritten");
  }

  private final class Counting extends PositionOutputStream {
    private final FSDataOutputStream out;

    @SuppressWarnings("unused")
    private final FileSystemCache.Held held;

    Counting(FSDataOutputStream out, FileSystemCache.Held held) {
      this.out = out;
      this.held = held;
    }

    @Override
    public long getPos() {
      return length;
    }

    @Override
    public void write(int one) throws IOException {
      out.write(one);
      if (tail != null) {
        tail[(int) (length % TAIL)] = (byte) one;
      }
      length++;
    }

    @Override
    public void write(byte[] bytes, int from, int count) throws IOException {
      out.write(bytes, from, count);
      if (tail != null) {
        keep(bytes, from, count);
      }
      length += count;
    }

    private void keep(byte[] bytes, int from, int count) {
      int kept = Math.min(count, TAIL);
      int at = (int) ((length + count - kept) % TAIL);
      int first = Math.min(kept, TAIL - at);
      System.arraycopy(bytes, from + count - kept, tail, at, first);
      System.arraycopy(bytes, from + count - kept + first, tail, 0, kept - first);
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void close() throws IOException {
      out.close();
    }
  }

  /**
   * The footer of a Parquet file as it was written, from its first byte to the end of the file;
   * null if it was not kept.
   */
  public byte[] footer() {
    if (tail == null || length < END) {
      return null;
    }
    byte[] end = last(END);
    long size =
        END + Integer.toUnsignedLong(ByteBuffer.wrap(end).order(ByteOrder.LITTLE_ENDIAN).getInt());
    return size > Math.min(length, TAIL) ? null : last((int) size);
  }

  private byte[] last(int count) {
    byte[] found = new byte[count];
    for (int i = 0; i < count; i++) {
      found[i] = tail[(int) ((length - count + i) % TAIL)];
    }
    return found;
  }

  /** In stores with blocks, a row group is kept within a block. */
  @Override
  public boolean supportsBlockSize() {
    return BLOCK_STORES.contains(
        String.valueOf(TableStorage.path(location, conf).toUri().getScheme()));
  }

  @Override
  public long defaultBlockSize() {
    Path path = TableStorage.path(location, conf);
    try {
      return storage.fileSystem(path, conf).fs().getDefaultBlockSize(path);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public String getPath() {
    return location;
  }
}
