package sealberg.storage;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.net.URI;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.VersionInfo;
import sealberg.crypto.FileIntegrityException;

/**
 * Hadoop file systems for tasks: one for each store and each set of storage settings.
 *
 * <pre>
 *   settings of a catalog    ──>  a file system of this cache, shared by tasks with equal settings
 *   no settings for a store  ──>  likewise, by the settings of the query's configuration
 *   local files              ──>  without checksum files beside them: GCM tags protect more
 * </pre>
 *
 * Hadoop's cache is keyed by scheme, host and user only: two catalogs with different credentials
 * for a bucket would share a file system, and so would a session with an endpoint of its own and
 * all others. An idle file system leaves this cache, and is closed when no open stream uses it.
 */
public final class FileSystemCache {
  private static final int MOST = 64;
  private static final long IDLE_NANOS = TimeUnit.MINUTES.toNanos(10);
  private static final Map<Key, Entry> ENTRIES = new HashMap<>();

  /** What each configuration says: one of a query has thousands of names, and opens many files. */
  private static final Map<Configuration, Map<String, String>> OF_QUERIES =
      Collections.synchronizedMap(new WeakHashMap<>());

  private static final Cleaner CLEANER = Cleaner.create();
  private static final ScheduledExecutorService CLOCK =
      Executors.newSingleThreadScheduledExecutor(FileSystemCache::daemon);

  static {
    CLOCK.scheduleWithFixedDelay(FileSystemCache::dropIdle, 1, 1, TimeUnit.MINUTES);
  }

  private FileSystemCache() {}

  /** A file system that stays open as long as this object is reachable. */
  public static final class Held {
    private final FileSystem fs;

    private Held(FileSystem fs) {
      this.fs = fs;
    }

    public FileSystem fs() {
      return fs;
    }
  }

  private record Key(
      UserGroupInformation user, String scheme, String authority, Map<String, String> settings) {
    @Override
    public String toString() {
      return scheme + "://" + authority; // never the settings
    }
  }

  private static final class Entry {
    private Held held;
    private volatile long used;

    synchronized Held opened(Path path, Key key, Configuration conf) throws IOException {
      used = System.nanoTime();
      if (held == null) {
        Configuration own = new Configuration(conf);
        key.settings.forEach(own::set);
        own.setBoolean("fs." + key.scheme + ".impl.disable.cache", true);
        FileSystem fs = made(path.toUri(), own);
        held = new Held(fs instanceof ChecksumFileSystem checked ? checked.getRawFileSystem() : fs);
        CLEANER.register(held, () -> close(fs));
      }
      return held;
    }
  }

  static Held get(Path path, Map<String, String> given, Configuration conf) throws IOException {
    Map<String, String> settings =
        given.isEmpty() ? OF_QUERIES.computeIfAbsent(conf, FileSystemCache::settings) : given;
    URI uri = path.toUri();
    Key key =
        new Key(
            UserGroupInformation.getCurrentUser(), uri.getScheme(), uri.getAuthority(), settings);
    Entry entry;
    synchronized (ENTRIES) {
      entry = ENTRIES.computeIfAbsent(key, unused -> new Entry());
      entry.used = System.nanoTime();
      if (ENTRIES.size() > MOST) {
        ENTRIES.entrySet().stream()
            .min((one, other) -> Long.compare(one.getValue().used - other.getValue().used, 0))
            .ifPresent(eldest -> ENTRIES.remove(eldest.getKey()));
      }
    }
    return entry.opened(path, key, conf);
  }

  /** All that a configuration says of file systems. */
  private static Map<String, String> settings(Configuration conf) {
    Map<String, String> found = new HashMap<>();
    conf.getPropsWithPrefix("fs.").forEach((name, value) -> found.put("fs." + name, value));
    return Map.copyOf(found);
  }

  private static void dropIdle() {
    long now = System.nanoTime();
    synchronized (ENTRIES) {
      for (Iterator<Entry> each = ENTRIES.values().iterator(); each.hasNext(); ) {
        if (now - each.next().used > IDLE_NANOS) {
          each.remove();
        }
      }
    }
  }

  private static void close(FileSystem fs) {
    try {
      fs.close();
    } catch (IOException | RuntimeException error) {
      // The file system is no longer in use.
    }
  }

  private static Thread daemon(Runnable task) {
    Thread thread = new Thread(task, "sealberg-file-systems");
    thread.setDaemon(true);
    return thread;
  }

  // -- missing connectors
  // ----------------------------------------------------------------------

  private static FileSystem made(URI uri, Configuration conf) throws IOException {
    try {
      return FileSystem.get(uri, conf);
    } catch (UnsupportedFileSystemException | RuntimeException | NoClassDefFoundError error) {
      if (isMissing(error)) {
        throw missing(uri, error);
      }
      throw error;
    }
  }

  private static boolean isMissing(Throwable error) {
    for (Throwable each = error; each != null; each = each.getCause()) {
      if (each instanceof UnsupportedFileSystemException
          || each instanceof ClassNotFoundException
          || each instanceof NoClassDefFoundError) {
        return true;
      }
    }
    return false;
  }

  /**
   * Connectors are part of Hadoop or of a vendor; the user installs the version that the running
   * Spark needs.
   */
  private static FileIntegrityException missing(URI uri, Throwable error) {
    String hadoop = VersionInfo.getVersion();
    String needed =
        switch (String.valueOf(uri.getScheme())) {
          case "s3a" ->
              "org.apache.hadoop:hadoop-aws:" + hadoop + " (with the AWS SDK that it depends on)";
          case "abfs", "abfss" -> "org.apache.hadoop:hadoop-azure:" + hadoop;
          case "gs" ->
              "com.google.cloud.bigdataoss:gcs-connector, a version for Hadoop "
                  + hadoop.split("\\.")[0];
          default -> null;
        };
    String found = error.getMessage() == null ? error.toString() : error.getMessage();
    return new FileIntegrityException(
        uri
            + ": Spark's tasks have no connector for "
            + uri.getScheme()
            + " ("
            + found
            + "); "
            + (needed == null
                ? "set spark.hadoop.fs." + uri.getScheme() + ".impl"
                : "add " + needed + " to spark.jars.packages, or to the jars of the cluster"),
        error);
  }
}
