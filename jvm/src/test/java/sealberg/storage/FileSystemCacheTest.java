package sealberg.storage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.io.IOException;
import java.net.URI;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.junit.jupiter.api.Test;

class FileSystemCacheTest {
  /** What a session of another user could name. */
  public static final class Theirs extends RawLocalFileSystem {}

  private static final Path FILE = new Path("file:///tmp/x");

  @Test
  void aFileSystemOfAnotherSessionIsNotTaken() throws IOException {
    Configuration theirs = new Configuration();
    theirs.set("fs.file.impl", Theirs.class.getName());
    FileSystem.closeAll();
    assertEquals(Theirs.class, FileSystem.get(FILE.toUri(), theirs).getClass());
    Configuration ours = new Configuration();
    assertEquals(Theirs.class, FileSystem.get(FILE.toUri(), ours).getClass()); // of Hadoop's cache
    FileSystem found = FileSystemCache.get(FILE, Map.of(), ours).fs();
    assertEquals(RawLocalFileSystem.class, found.getClass());
    FileSystem.closeAll();
  }

  @Test
  void queriesWithEqualSettingsShareAFileSystem() throws IOException {
    FileSystem one = FileSystemCache.get(FILE, Map.of(), new Configuration()).fs();
    assertSame(one, FileSystemCache.get(FILE, Map.of(), new Configuration()).fs());
    Configuration other = new Configuration();
    other.set("fs.s3a.endpoint", "http://elsewhere");
    assertNotSame(one, FileSystemCache.get(FILE, Map.of(), other).fs());
    assertEquals(URI.create("file:///"), one.getUri());
  }
}
