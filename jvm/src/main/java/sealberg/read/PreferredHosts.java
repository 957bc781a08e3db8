package sealberg.read;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;

/** The hosts that hold most of the bytes of a task, for files in HDFS, as in Iceberg Java. */
final class PreferredHosts {
  private static final int MOST = 3;
  private static final String[] ANYWHERE = {};

  private PreferredHosts() {}

  static String[] of(FileSplit[] files, SparkSession spark) {
    Configuration conf = null;
    Map<String, Long> held = new HashMap<>();
    for (FileSplit file : files) {
      if (file.location().startsWith("hdfs:")) {
        conf = conf == null ? FileSplit.conf(spark) : conf;
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

  private static void count(FileSplit file, Path path, Configuration conf, Map<String, Long> held) {
    try {
      for (BlockLocation block :
          path.getFileSystem(conf).getFileBlockLocations(path, file.start(), file.length())) {
        for (String host : block.getHosts()) {
          held.merge(host, block.getLength(), Long::sum);
        }
      }
    } catch (IOException error) {
      // Preferred hosts are optional: the task reports an error of the file itself.
    }
  }
}
