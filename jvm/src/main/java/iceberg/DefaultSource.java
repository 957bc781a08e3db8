package iceberg;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * What Spark finds behind the word in {@code
 * df.write.format("iceberg").saveAsTable("prod.hr.pay")}.
 *
 * <p>Spark looks the word up before it asks the catalog, which then does all the work. Where
 * Iceberg's own connector is in the session, Spark finds the connector by its registration and
 * never comes here.
 */
public final class DefaultSource implements TableProvider {
  private static UnsupportedOperationException refusal() {
    return new UnsupportedOperationException(
        "format(\"iceberg\") reads and writes tables by the name of their catalog: use spark.table,"
            + " writeTo or saveAsTable with catalog.namespace.table; for a path, Iceberg's own"
            + " connector is needed");
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    throw refusal();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    throw refusal();
  }
}
