package sealberg.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.MessageCodec;

/** Iceberg's metadata columns; a data file need not contain them. */
public final class MetadataColumns {
  public static final String FILE = "_file";
  public static final String POS = "_pos";
  public static final String ROW_ID = "_row_id";
  public static final String LAST_UPDATED = "_last_updated_sequence_number";
  public static final String SPEC_ID = "_spec_id";
  public static final String PARTITION = "_partition";
  public static final String DELETED = "_deleted";

  /** Those that no data file contains. */
  private static final Set<String> COMPUTED = Set.of(FILE, POS, SPEC_ID, PARTITION, DELETED);

  private MetadataColumns() {}

  /**
   * @param partition the fields of all partition specs of the table
   */
  static MetadataColumn[] all(StructType partition) {
    return new MetadataColumn[] {
      new Extra(SPEC_ID, DataTypes.IntegerType, true, false),
      new Extra(PARTITION, partition, true, false),
      new Extra(FILE, DataTypes.StringType, false, false),
      new Extra(POS, DataTypes.LongType, false, false),
      new Extra(DELETED, DataTypes.BooleanType, false, false),
      new Extra(ROW_ID, DataTypes.LongType, true, true),
      new Extra(LAST_UPDATED, DataTypes.LongType, true, false)
    };
  }

  public static boolean contains(String name) {
    return isComputed(name) || name.equals(ROW_ID) || name.equals(LAST_UPDATED);
  }

  public static boolean isComputed(String name) {
    return COMPUTED.contains(name);
  }

  /**
   * `kept` is true for columns that keep their value when a row is updated. _file and _pos identify
   * the rows to delete.
   */
  record Extra(String name, DataType dataType, boolean isNullable, boolean kept)
      implements MetadataColumn {
    @Override
    public String metadataInJSON() {
      return MessageCodec.JSON
          .createObjectNode()
          .put(MetadataColumn.PRESERVE_ON_UPDATE, kept)
          .put(MetadataColumn.PRESERVE_ON_REINSERT, kept)
          .toString();
    }
  }
}
