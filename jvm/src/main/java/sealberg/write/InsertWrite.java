package sealberg.write;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.SessionSettings;
import sealberg.bridge.WriteMessages.BeginWrite;
import sealberg.bridge.WriteMessages.SortField;
import sealberg.bridge.WriteMessages.WriteMode;
import sealberg.bridge.WriteMessages.WritePlan;
import sealberg.bridge.WriteMessages.WriteRequest;
import sealberg.catalog.EncryptedTable;
import sealberg.read.FilterJson;

/**
 * One write to a table: tasks write files, Python commits them as one snapshot.
 *
 * <pre>
 *   INSERT                  rows ─────────────────────────────> PartitionedWriter ──> files, keys ┐
 *   DELETE, UPDATE, MERGE   copy-on-write: the remaining rows of the affected files, as above,   ├─> commit
 *                             and the names of those files ──────────────────────────────────────┤
 *                           merge-on-read: new rows, as above, and deleted rows,                 │
 *                             by _file and _pos ──> positions for each file ─────────────────────┘
 * </pre>
 *
 * Keys reach the driver inside the commit message of a task, and so only from tasks that Spark
 * allowed to commit.
 *
 * <p>Spark is asked to cluster and sort the rows by partition, then by the sort order of the table.
 */
public class InsertWrite implements RequiresDistributionAndOrdering {
  final BatchCommit batch;
  private final WritePlan plan;

  InsertWrite(BatchCommit batch) {
    this.batch = batch;
    this.plan = batch.plan();
  }

  @Override
  public BatchWrite toBatch() {
    return batch;
  }

  @Override
  public Distribution requiredDistribution() {
    return switch (plan.distribution()) {
      case HASH -> Distributions.clustered(clustering());
      case RANGE -> Distributions.ordered(requiredOrdering());
      case NONE -> Distributions.unspecified();
    };
  }

  @Override
  public long advisoryPartitionSizeInBytes() {
    boolean distributed = plan.distribution() != sealberg.bridge.WriteMessages.Distribution.NONE;
    return distributed && plan.advisoryPartitionSize() != null ? plan.advisoryPartitionSize() : 0;
  }

  Expression[] clustering() {
    return batch.table().partitioning();
  }

  @Override
  public SortOrder[] requiredOrdering() {
    List<SortOrder> orders = new ArrayList<>();
    if (plan.clustered()) {
      for (Expression partition : batch.table().partitioning()) {
        orders.add(Expressions.sort(partition, SortDirection.ASCENDING));
      }
    }
    for (SortField field : plan.order()) {
      Expression by =
          field.transform().equals("identity")
              ? Expressions.column(field.column())
              : EncryptedTable.transform(field.transform(), field.width(), field.column());
      SortDirection direction =
          field.descending() ? SortDirection.DESCENDING : SortDirection.ASCENDING;
      NullOrdering nulls = field.nullsFirst() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST;
      orders.add(Expressions.sort(by, direction, nulls));
    }
    return orders.toArray(new SortOrder[0]);
  }

  /** Builds an INSERT; Spark tells the builder what the INSERT replaces. */
  public static final class Builder
      implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite {
    private final EncryptedTable table;
    private final String queryId;
    private final LogicalWriteInfo info;
    private final Map<String, String> settings = SessionSettings.current();
    private WriteMode mode = WriteMode.APPEND;
    private List<FilterMessage> filters;

    public Builder(EncryptedTable table, LogicalWriteInfo info) {
      this.table = table;
      this.queryId = info.queryId();
      this.info = info;
    }

    @Override
    public boolean canOverwrite(Filter[] filters) {
      return FilterJson.understands(filters);
    }

    @Override
    public WriteBuilder overwrite(Filter[] filters) {
      mode = WriteMode.OVERWRITE;
      this.filters = FilterJson.messages(filters);
      return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
      mode = WriteMode.OVERWRITE_PARTITIONS;
      return this;
    }

    @Override
    public Write build() {
      WriteRequest write =
          new WriteRequest(
              table.handle(),
              mode,
              table.withoutName(info.options()).asCaseSensitiveMap(),
              settings,
              SQLConf.get().caseSensitiveAnalysis(),
              null,
              info.schema(),
              filters);
      BatchCommit batch =
          new BatchCommit(table, write, table.ask(new BeginWrite(write)), false, null, () -> null);
      return new InsertWrite(batch) {
        @Override
        public StreamingWrite toStreaming() {
          return new BatchCommit.Streaming(batch, queryId);
        }
      };
    }
  }
}
