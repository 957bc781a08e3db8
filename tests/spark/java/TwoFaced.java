import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/** Storage that shows a file as it is to whoever looks at its end for the first time, and path.other from then on. */
public class TwoFaced extends RawLocalFileSystem {
  static final AtomicInteger LOOKS = new AtomicInteger();

  @Override
  public URI getUri() {
    return URI.create("twofaced:///");
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return new FileStatus(Files.size(Paths.get(path.toUri().getPath())), false, 1, 1 << 20, 0, path);
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    String place = path.toUri().getPath();
    byte[] first = Files.readAllBytes(Paths.get(place));
    byte[] later = Files.readAllBytes(Paths.get(place + ".other"));
    return new FSDataInputStream(new FSInputStream() {
      private int at = 0;

      @Override
      public int read(byte[] to, int from, int count) {
        int read = Math.min(count, first.length - at);
        if (read <= 0) {
          return -1;
        }
        int looks = at + read == first.length ? LOOKS.getAndIncrement() : LOOKS.get();
        System.arraycopy(looks == 0 ? first : later, at, to, from, read);
        at += read;
        return read;
      }

      @Override
      public int read() {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
      }

      @Override
      public void seek(long position) {
        at = (int) position;
      }

      @Override
      public long getPos() {
        return at;
      }

      @Override
      public boolean seekToNewSource(long position) {
        return false;
      }
    });
  }
}
