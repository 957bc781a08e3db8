package sealberg.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.MetadataTableMessages.ResolveMetadataOptions;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.TableMessages.MetadataTableDescription;
import sealberg.bridge.TableMessages.TableHandle;
import sealberg.read.MetadataScanBuilder;

/** A metadata table, e.g. t.snapshots, at the snapshot that the query has named. */
final class MetadataTable implements SupportsRead {
  private final String catalog;
  private final MetadataTableDescription description;

  MetadataTable(String catalog, MetadataTableDescription description) {
    this.catalog = catalog;
    this.description = description;
  }

  @Override
  public String name() {
    return catalog + "." + description.name();
  }

  /** As of {@link EncryptedTable}. */
  public String id() {
    return description.handle().uuid();
  }

  @Override
  @SuppressWarnings("deprecation") // Spark derives columns() from it
  public StructType schema() {
    return description.schema();
  }

  @Override
  public Transform[] partitioning() {
    return description.partitionColumns().stream()
        .map(Expressions::identity)
        .toArray(Transform[]::new);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  /** Python chooses the snapshot by the options, and refuses unknown options. */
  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    CaseInsensitiveStringMap options =
        CatalogName.withoutName(given, catalog, description.name()::equalsIgnoreCase);
    TableHandle handle =
        options.isEmpty()
            ? description.handle()
            : PythonBridge.call(
                catalog,
                new ResolveMetadataOptions(
                    description.handle(), description.kind(), options.asCaseSensitiveMap()));
    return new MetadataScanBuilder(catalog, handle, description);
  }
}
