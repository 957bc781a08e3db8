package sealberg.catalog;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import sealberg.bridge.MessageCodec;

/** Iceberg's metadata columns; a data file need not contain them. */
public final class MetadataColumns {
  public static final String FILE = "_file";
  public static final String POS = "_pos";
  public static final String ROW_ID = "_row_id";
  public static final String LAST_UPDATED = "_last_updated_sequence_number";

  private MetadataColumns() {}

  static MetadataColumn[] all() {
    return new MetadataColumn[] {
      new Extra(FILE, DataTypes.StringType, false, false),
      new Extra(POS, DataTypes.LongType, false, false),
      new Extra(ROW_ID, DataTypes.LongType, true, true),
      new Extra(LAST_UPDATED, DataTypes.LongType, true, false)
    };
  }

  public static boolean contains(String name) {
    return Set.of(FILE, POS, ROW_ID, LAST_UPDATED).contains(name);
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
