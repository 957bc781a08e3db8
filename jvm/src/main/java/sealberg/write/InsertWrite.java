package sealberg.write;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
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
import sealberg.bridge.PythonBridge;
import sealberg.bridge.SessionSettings;
import sealberg.catalog.EncryptedTable;
import sealberg.read.FilterJson;

/**
 * One write to a table: tasks write files, Python commits them as one snapshot.
 *
 * <pre>
 *   INSERT                  rows ─────────────────────────────> PartitionedWriter ──> files, keys ─┐
 *   DELETE, UPDATE, MERGE   copy-on-write: all rows of the files that are touched, as above,       ├─> commit
 *                             without those that go, and the names of those files ─────────────────┤
 *                           merge-on-read: rows that come, as above, and rows that go,             │
 *                             by _file and _pos ──> positions for each file ───────────────────────┘
 * </pre>
 *
 * Keys come to the driver inside the commit message of a task, and so only from tasks that Spark
 * let commit.
 *
 * <p>Rows are asked for clustered and sorted by partition, then in the sort order of the table.
 */
public class InsertWrite implements RequiresDistributionAndOrdering {
  final BatchCommit batch;
  final JsonNode plan;

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
    return switch (plan.get("distribution").asText()) {
      case "hash" -> Distributions.clustered(clustering());
      case "range" -> Distributions.ordered(requiredOrdering());
      default -> Distributions.unspecified();
    };
  }

  @Override
  public long advisoryPartitionSizeInBytes() {
    return plan.get("distribution").asText().equals("none")
        ? 0
        : plan.path("advisory-size").asLong(0);
  }

  Expression[] clustering() {
    return batch.table().partitioning();
  }

  @Override
  public SortOrder[] requiredOrdering() {
    List<SortOrder> orders = new ArrayList<>();
    if (plan.get("clustered").asBoolean()) {
      for (Expression partition : batch.table().partitioning()) {
        orders.add(Expressions.sort(partition, SortDirection.ASCENDING));
      }
    }
    for (JsonNode one : plan.get("order")) {
      Expression by =
          one.get("transform").asText().equals("identity")
              ? Expressions.column(one.get("column").asText())
              : EncryptedTable.transform(one);
      SortDirection direction =
          one.get("descending").asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING;
      NullOrdering nulls =
          one.get("nulls-first").asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST;
      orders.add(Expressions.sort(by, direction, nulls));
    }
    return orders.toArray(new SortOrder[0]);
  }

  /** An INSERT, while Spark says what it replaces. */
  public static final class Builder
      implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite {
    private final EncryptedTable table;
    private final String queryId;
    private final ObjectNode how = PythonBridge.object().put("mode", "append");

    public Builder(EncryptedTable table, LogicalWriteInfo info) {
      this.table = table;
      this.queryId = info.queryId();
      how.set("options", PythonBridge.strings(info.options().asCaseSensitiveMap()));
      how.set("settings", SessionSettings.current());
      how.set("rows", PythonBridge.parsed(info.schema().json()));
      how.put("case-sensitive", SQLConf.get().caseSensitiveAnalysis());
    }

    @Override
    public boolean canOverwrite(Filter[] filters) {
      return FilterJson.understands(filters);
    }

    @Override
    public WriteBuilder overwrite(Filter[] filters) {
      how.put("mode", "overwrite").set("filters", FilterJson.described(filters));
      return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
      how.put("mode", "dynamic");
      return this;
    }

    @Override
    public Write build() {
      BatchCommit batch =
          new BatchCommit(
              table, how, table.ask("begin-write", how.deepCopy()), false, null, () -> null);
      return new InsertWrite(batch) {
        @Override
        public StreamingWrite toStreaming() {
          return new BatchCommit.Streaming(batch, queryId);
        }
      };
    }
  }
}
