package sealberg.read;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import sealberg.crypto.FileIntegrityException;
import sealberg.storage.FileSystemCache;

/**
 * The hosts that hold most of the bytes of a task, for files in HDFS, as in Iceberg Java. The file
 * system is the one that the task will use, never that of another session.
 */
final class PreferredHosts {
  private static final int MOST = 3;
  private static final String[] ANYWHERE = {};

  private PreferredHosts() {}

  static String[] of(FileSplit[] files, SparkSession spark) {
    return of(files, () -> FileSplit.conf(spark));
  }

  static String[] of(FileSplit[] files, Supplier<Configuration> settings) {
    Configuration conf = null;
    Map<String, Long> held = new HashMap<>();
    for (FileSplit file : files) {
      if (file.location().startsWith("hdfs:")) {
        conf = conf == null ? settings.get() : conf;
        count(file, new Path(file.location()), conf, held);
      }
    }
    return held.isEmpty()
        ? ANYWHERE
        : held.entrySet().stream()
            .sorted(Map.Entry.<String, Long>comparingByValue().reversed())
            .limit(MOST)
            .map(Map.Entry::getKey)
            .toArray(String[]::new);
  }

  private static void count(
      FileSplit file, Path path, Configuration conf, Map<String, Long> bytes) {
    try {
      FileSystemCache.Held held = file.storage().fileSystem(path, conf);
      for (BlockLocation block :
          held.fs().getFileBlockLocations(path, file.start(), file.length())) {
        for (String host : block.getHosts()) {
          bytes.merge(host, block.getLength(), Long::sum);
        }
      }
    } catch (IOException | FileIntegrityException error) {
      // Preferred hosts are optional: the task reports an error of the file itself.
    }
  }
}
