package sealberg.crypto;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.crypto.FileDecryptionProperties;
import org.junit.jupiter.api.Test;
import sealberg.read.FileSplit;

class FooterKeyFactoryTest {
  private static final Path VERIFIED = new Path(PinnedFooterFileSystem.SCHEME + ":/data/a.parquet");

  @Test
  void aKeyIsGivenOnlyForAPathWhoseFooterIsVerified() {
    assertNotNull(keys(new byte[16], VERIFIED));
    for (Path path : new Path[] {new Path("file:/data/a.parquet"), null}) {
      assertThrows(FileIntegrityException.class, () -> keys(new byte[16], path));
    }
  }

  @Test
  void aPlaintextFileNeedsNoPath() {
    assertNull(keys(null, null));
  }

  @Test
  void aThreadThatOpensNoFileGetsNoKey() {
    FooterKeyFactory factory = new FooterKeyFactory();
    Configuration conf = new Configuration(false);
    assertThrows(
        FileIntegrityException.class, () -> factory.getFileDecryptionProperties(conf, VERIFIED));
  }

  private static FileDecryptionProperties keys(byte[] key, Path path) {
    FileSplit file =
        new FileSplit(
            "file:/data/a.parquet",
            100,
            0,
            100,
            1,
            key,
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            null);
    Configuration conf = new Configuration(false);
    return FooterKeyFactory.with(
        file, () -> new FooterKeyFactory().getFileDecryptionProperties(conf, path));
  }
}
