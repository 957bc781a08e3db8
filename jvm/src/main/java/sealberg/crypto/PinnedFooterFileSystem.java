package sealberg.crypto;

import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.OpenFileParameters;
import sealberg.read.FileSplit;
import sealberg.storage.FileSystemCache;
import sealberg.storage.StoredFile;
import sealberg.storage.TableStorage;

/**
 * The encrypted file that a thread is opening, as a file system of its own: sealed:/path.
 *
 * <pre>
 *   the end of the file ── fetched once ──> checked by EncryptedFooter ──> kept: Parquet reads these very bytes
 *   the rest            ── from storage ──> authenticated by Parquet, part by part
 * </pre>
 *
 * Storage that answers one thing to whoever checks and another to whoever reads gains nothing. The
 * length of the file is the one that its manifest entry vouches for.
 */
public class PinnedFooterFileSystem extends FilterFileSystem {
  static final String SCHEME = "sealed";
  private static final int TAIL = 1 << 16;

  private FileSplit file;
  private FileSystemCache.Held held;
  private Path stored;

  public static Path path(FileSplit file) {
    return new Path(SCHEME, null, new Path(file.location()).toUri().getPath());
  }

  public static void enable(Configuration conf) {
    conf.set("fs." + SCHEME + ".impl", PinnedFooterFileSystem.class.getName());
    conf.setBoolean("fs." + SCHEME + ".impl.disable.cache", true); // each stands for one file
    conf.set("parquet.crypto.factory.class", FooterKeyFactory.class.getName());
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    setConf(conf);
    file = FooterKeyFactory.opening(name.toString());
    stored = TableStorage.path(file.location(), conf);
    held = file.storage().fileSystem(stored, conf);
    fs = held.fs();
  }

  @Override
  public FileStatus getFileStatus(Path path) {
    return new FileStatus(file.fileLength(), false, 1, 128L << 20, 0, path);
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    if (!StoredFile.isObject(stored)) {
      long found = fs.getFileStatus(stored).getLen();
      if (found != file.fileLength()) {
        throw new FileIntegrityException(
            file
                + ": the file has "
                + found
                + " bytes, expected the "
                + file.fileLength()
                + " that were written");
      }
    }
    FSDataInputStream in = StoredFile.open(held, stored, file.fileLength());
    if (file.key() == null) {
      return in;
    }
    try {
      return new FSDataInputStream(new Pinned(in, tail(in), file.fileLength()));
    } catch (IOException | RuntimeException error) {
      in.close();
      throw error;
    }
  }

  /** The file system within is not ours alone. */
  @Override
  public void close() {}

  /** Not by the file system within, which knows nothing of all this. */
  @Override
  public FutureDataInputStreamBuilder openFile(Path path) {
    return createDataInputStreamBuilder(this, path);
  }

  @Override
  protected CompletableFuture<FSDataInputStream> openFileWithOptions(
      Path path, OpenFileParameters options) throws IOException {
    return CompletableFuture.completedFuture(open(path, options.getBufferSize()));
  }

  /**
   * As much of the end as must stay as it is: at least the footer, and what is before it in the
   * clear.
   */
  private byte[] tail(FSDataInputStream in) throws IOException {
    byte[] tail = end(in, (int) Math.min(TAIL, file.fileLength()));
    int needed = EncryptedFooter.length(file.location(), file.fileLength(), tail);
    if (needed > tail.length) {
      tail = end(in, needed);
      if (EncryptedFooter.length(file.location(), file.fileLength(), tail) != needed) {
        throw new FileIntegrityException(file + ": the file changed while it was read");
      }
    }
    EncryptedFooter.checkAlgorithm(file.location(), tail, needed);
    return tail;
  }

  private byte[] end(FSDataInputStream in, int length) throws IOException {
    byte[] bytes = new byte[length];
    try {
      in.readFully(file.fileLength() - length, bytes);
    } catch (EOFException error) {
      throw error;
    } catch (IOException error) {
      String found = String.valueOf(error.getMessage());
      if (found.contains(stored.getName())) {
        throw error;
      }
      // S3A names the region of a bucket that is in another region, and neither bucket nor object.
      throw new IOException(file + ": " + found, error);
    }
    return bytes;
  }

  /** A file whose end is in memory. */
  private static final class Pinned extends FSInputStream {
    private final FSDataInputStream in;
    private final byte[] tail;
    private final long tailAt;
    private long at = 0;

    Pinned(FSDataInputStream in, byte[] tail, long length) throws IOException {
      this.in = in;
      this.tail = tail;
      this.tailAt = length - tail.length;
      in.seek(0);
    }

    @Override
    public int read(byte[] to, int from, int count) throws IOException {
      int read;
      if (at < tailAt) {
        read = in.read(to, from, (int) Math.min(count, tailAt - at));
      } else {
        read = (int) Math.min(count, tailAt + tail.length - at);
        if (read <= 0) {
          return count == 0 ? 0 : -1;
        }
        System.arraycopy(tail, (int) (at - tailAt), to, from, read);
      }
      at += Math.max(0, read);
      return read;
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public void seek(long position) throws IOException {
      if (position < tailAt) {
        in.seek(position);
      }
      at = position;
    }

    @Override
    public long getPos() {
      return at;
    }

    @Override
    public boolean seekToNewSource(long position) {
      return false;
    }

    /** TableStorage may have a quick way for ranges before the end. */
    @Override
    public void readVectored(
        List<? extends FileRange> ranges, IntFunction<java.nio.ByteBuffer> allocate)
        throws IOException {
      if (ranges.stream().allMatch(range -> range.getOffset() + range.getLength() <= tailAt)) {
        in.readVectored(ranges, allocate);
      } else {
        super.readVectored(ranges, allocate);
      }
    }

    @Override
    public int minSeekForVectorReads() {
      return in.minSeekForVectorReads();
    }

    @Override
    public int maxReadSizeForVectorReads() {
      return in.maxReadSizeForVectorReads();
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }
}
