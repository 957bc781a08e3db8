package sealberg.read;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.jupiter.api.Test;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.storage.TableStorage;

class PreferredHostsTest {
  /** HDFS with all blocks on one host. */
  public static class OneHost extends RawLocalFileSystem {
    @Override
    public URI getUri() {
      return URI.create("hdfs://name");
    }

    @Override
    public BlockLocation[] getFileBlockLocations(Path file, long start, long length) {
      String host = getConf().get("fs.host");
      return new BlockLocation[] {
        new BlockLocation(new String[] {host}, new String[] {host}, start, length)
      };
    }
  }

  private static Configuration of(String host) {
    Configuration conf = new Configuration(false);
    conf.set("fs.hdfs.impl", OneHost.class.getName());
    conf.set("fs.host", host);
    return conf;
  }

  private static FileSplit file(String location, TableStorage storage) {
    return new FileSplit(
        location, 9, 0, 9, 1, null, null, null, null, null, null, null, storage, null);
  }

  @Test
  void hostsAreAskedOfTheFileSystemOfTheQuery() throws IOException {
    FileSystem.closeAll();
    FileSystem.get(URI.create("hdfs://name/"), of("theirs")); // Hadoop's cache has it now
    TableStorage storage = TableStorage.of("prod", null, (StorageSettings) null, null);
    FileSplit[] files = {file("hdfs://name/a", storage)};
    assertArrayEquals(new String[] {"ours"}, PreferredHosts.of(files, () -> of("ours")));
    assertEquals(
        "theirs", FileSystem.get(URI.create("hdfs://name/"), of("ours")).getConf().get("fs.host"));
    FileSystem.closeAll();
  }
}
