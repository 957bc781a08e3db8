package sealberg.write;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import sealberg.bridge.WriteMessages.WriteMode;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;

/** Merge-on-read: Spark finds the rows to delete, and writes the new rows. */
public final class MergeOnReadOperation extends TableRowLevelOperation implements SupportsDelta {
  public MergeOnReadOperation(EncryptedTable table, Command command) {
    super(table, command, WriteMode.MERGE_ON_READ);
  }

  @Override
  public NamedReference[] rowId() {
    return columns(MetadataColumns.FILE, MetadataColumns.POS);
  }

  @Override
  public NamedReference[] requiredMetadataAttributes() {
    return command() == Command.DELETE ? columns() : columns(MetadataColumns.ROW_ID);
  }

  @Override
  public boolean representUpdateAsDeleteAndInsert() {
    return true;
  }

  @Override
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new DeltaWriteBuilder() {
      @Override
      public DeltaWrite build() {
        return new Delta(batch(info));
      }
    };
  }

  /** Clusters by file and partition: deletes have only a file, inserts only a partition. */
  private static final class Delta extends InsertWrite implements DeltaWrite {
    Delta(BatchCommit batch) {
      super(batch);
    }

    @Override
    public DeltaBatchWrite toBatch() {
      return batch;
    }

    @Override
    Expression[] clustering() {
      List<Expression> by = new ArrayList<>(List.of(Expressions.column(MetadataColumns.FILE)));
      by.addAll(Arrays.asList(super.clustering()));
      return by.toArray(new Expression[0]);
    }
  }
}
