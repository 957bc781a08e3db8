package sealberg.write;

import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import sealberg.bridge.WriteMessages.WriteMode;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;

/**
 * Copy-on-write: Spark reads the affected files and writes their remaining rows to new files, with
 * their row ids.
 */
public final class CopyOnWriteOperation extends TableRowLevelOperation {
  public CopyOnWriteOperation(EncryptedTable table, Command command) {
    super(table, command, WriteMode.COPY_ON_WRITE);
  }

  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return columns(MetadataColumns.FILE, MetadataColumns.ROW_ID, MetadataColumns.LAST_UPDATED);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new WriteBuilder() {
      @Override
      public Write build() {
        return new InsertWrite(batch(info));
      }
    };
  }
}
