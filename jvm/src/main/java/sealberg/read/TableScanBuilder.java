package sealberg.read;

import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.catalog.EncryptedTable;

/** Collects the filters, columns and aggregates that Spark pushes into a read before planning. */
public final class TableScanBuilder
    implements SupportsPushDownFilters,
        SupportsPushDownRequiredColumns,
        SupportsPushDownAggregates {
  private final EncryptedTable table;
  private StructType required;
  private final boolean wholeFiles;
  private final CaseInsensitiveStringMap options;
  private Filter[] filters = new Filter[0];
  private BatchScan built;
  private AggregateScan answer;

  public TableScanBuilder(
      EncryptedTable table, boolean wholeFiles, CaseInsensitiveStringMap options) {
    this.options = options;
    this.table = table;
    this.wholeFiles = wholeFiles;
    this.required = table.schema();
  }

  @Override
  public Filter[] pushFilters(Filter[] filters) {
    this.filters = filters;
    return filters;
  }

  @Override
  public Filter[] pushedFilters() {
    return filters;
  }

  @Override
  public void pruneColumns(StructType required) {
    this.required = required;
  }

  @Override
  public boolean supportCompletePushDown(Aggregation aggregation) {
    return pushAggregation(aggregation);
  }

  @Override
  public boolean pushAggregation(Aggregation aggregation) {
    boolean allowed = !Boolean.FALSE.equals(table.description().scanOptions().aggregates());
    if (answer == null && filters.length == 0 && !wholeFiles && allowed) {
      answer = AggregateScan.of(table, aggregation);
    }
    return answer != null;
  }

  @Override
  public Scan build() {
    if (answer != null) {
      return answer;
    }
    built = new BatchScan(table, required, filters, wholeFiles, options);
    return built;
  }

  /** The files that the operation read and will replace. */
  public List<String> locations() {
    return wholeFiles ? built.files().stream().map(FileSplit::location).toList() : List.of();
  }
}
