package sealberg.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.TableMessages.MetadataTableRows;

/** A metadata table, e.g. t.snapshots. Python has already computed its rows. */
final class MetadataTable implements SupportsRead {
  private final MetadataTableRows metadata;

  MetadataTable(MetadataTableRows metadata) {
    this.metadata = metadata;
  }

  @Override
  public String name() {
    return metadata.name();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark derives columns() from it
  public StructType schema() {
    return metadata.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    if (!options.isEmpty()) {
      throw new IllegalArgumentException(
          name()
              + " is a metadata table and takes no read options, found "
              + options.keySet()
              + "; VERSION AS OF and TIMESTAMP AS OF choose a snapshot of files, manifests and"
              + " partitions");
    }
    return () -> JsonRows.scan(metadata.schema(), metadata.rows());
  }
}
