package iceberg;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsCatalogOptions;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.catalog.CatalogName;
import sealberg.catalog.EncryptedCatalog;

/**
 * What Spark finds behind the word in {@code
 * df.write.format("iceberg").saveAsTable("prod.hr.pay")}, {@code .save("prod.hr.pay")} and {@code
 * spark.read.format("iceberg").load("prod.hr.pay")}.
 *
 * <p>Spark looks the word up before it asks the catalog, which then does all the work. Where
 * Iceberg's own connector is in the session, Spark finds the connector by its registration and
 * never comes here.
 */
public final class DefaultSource implements SupportsCatalogOptions {
  @Override
  public String extractCatalog(CaseInsensitiveStringMap options) {
    return named(options).catalog().name();
  }

  @Override
  public Identifier extractIdentifier(CaseInsensitiveStringMap options) {
    return named(options).rest();
  }

  @Override
  public Optional<String> extractTimeTravelVersion(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("versionAsOf"));
  }

  @Override
  public Optional<String> extractTimeTravelTimestamp(CaseInsensitiveStringMap options) {
    return Optional.ofNullable(options.get("timestampAsOf"));
  }

  /** Streams ask for the table itself. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return CatalogV2Util.v2ColumnsToStructType(table(named(options)).columns());
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return table(named(new CaseInsensitiveStringMap(properties)));
  }

  private static Table table(CatalogName name) {
    return ((EncryptedCatalog) name.catalog()).loadTable(name.rest());
  }

  private static CatalogName named(CaseInsensitiveStringMap options) {
    CatalogName found = CatalogName.parsed(SparkSession.active(), options.get("path"));
    if (found == null || !(found.catalog() instanceof EncryptedCatalog)) {
      throw new UnsupportedOperationException(
          "format(\"iceberg\") reads and writes tables by the name of their catalog, found "
              + options.get("path")
              + ": use load, save, spark.table, writeTo or saveAsTable with"
              + " catalog.namespace.table; for a path, Iceberg's own connector is needed");
    }
    return found;
  }
}
