import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.iceberg.Files;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;

/** Iceberg's own parser of table metadata: for each line loads the file, prints seconds of the thread's processor. */
final class LoadLoop {
  private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

  private LoadLoop() {}

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    while (lines.readLine() != null) {
      long began = THREADS.getCurrentThreadCpuTime();
      TableMetadata metadata = TableMetadataParser.read(Files.localInput(arguments[0]));
      if (metadata.snapshots().isEmpty() || metadata.encryptionKeys().isEmpty()) {
        throw new IllegalStateException("no snapshots or no keys in " + arguments[0]);
      }
      System.out.println((THREADS.getCurrentThreadCpuTime() - began) / 1e9);
    }
  }
}
