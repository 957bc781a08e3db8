package sealberg;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** A metadata table, e.g. t.snapshots: a few rows that Python has made already, of numbers, booleans and text. */
final class RowsTable implements SupportsRead {
  private final JsonNode described;
  private final StructType schema;

  RowsTable(JsonNode described) {
    this.described = described;
    this.schema = (StructType) DataType.fromJson(described.get("schema").toString());
  }

  @Override
  public String name() {
    return described.get("rows-of").asText();
  }

  @Override
  public StructType schema() {
    return schema;
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ);
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    if (!options.isEmpty()) {
      throw new IllegalArgumentException(
          name() + " is a metadata table and takes no read options, found " + options.keySet()
              + "; VERSION AS OF and TIMESTAMP AS OF choose a snapshot of files, manifests and partitions");
    }
    return () -> new LocalScan() {
      @Override
      public StructType readSchema() {
        return schema;
      }

      @Override
      public InternalRow[] rows() {
        List<InternalRow> rows = new ArrayList<>();
        described.get("rows").forEach(row -> rows.add(row(row)));
        return rows.toArray(new InternalRow[0]);
      }
    };
  }

  private InternalRow row(JsonNode values) {
    Object[] row = new Object[schema.length()];
    for (int i = 0; i < row.length; i++) {
      row[i] = values.get(i).isNull() ? null : value(values.get(i), schema.apply(i).dataType());
    }
    return new GenericInternalRow(row);
  }

  private static Object value(JsonNode value, DataType type) {
    if (type.equals(DataTypes.IntegerType)) {
      return value.asInt();
    }
    if (type.equals(DataTypes.LongType) || type.equals(DataTypes.TimestampType)) {
      return value.asLong();
    }
    if (type.equals(DataTypes.BooleanType)) {
      return value.asBoolean();
    }
    return UTF8String.fromString(value.asText());
  }
}
