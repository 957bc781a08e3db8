package sealberg;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * One write to a table: tasks write files, Python commits them as one snapshot.
 *
 * <pre>
 *   INSERT                  rows ──────────────────────────────> SealedWriter ──> files and their keys ─┐
 *   DELETE, UPDATE, MERGE   copy-on-write: all rows of the files that are touched, as above,            ├─> commit
 *                             without those that go, and the names of those files ──────────────────────┤
 *                           merge-on-read: rows that come, as above, and rows that go,                  │
 *                             by _file and _pos ──> positions for each file ────────────────────────────┘
 * </pre>
 *
 * Keys come to the driver inside the commit message of a task, and so only from tasks that Spark let commit.
 */
final class SealedWrite {
  private SealedWrite() {}

  /** Is there a filter among these that Python would not understand? */
  static boolean untold(Filter[] filters) {
    return Arrays.stream(filters).anyMatch(filter -> Filters.described(filter) == null);
  }

  // -- INSERT -------------------------------------------------------------------------------------

  static final class Builder implements WriteBuilder, SupportsOverwrite, SupportsDynamicOverwrite {
    private final SealedTable table;
    private final String queryId;
    private final ObjectNode how = Bridge.object().put("mode", "append");

    Builder(SealedTable table, LogicalWriteInfo info) {
      this.table = table;
      this.queryId = info.queryId();
      how.set("options", Bridge.strings(info.options().asCaseSensitiveMap()));
      how.set("settings", SessionSettings.current());
      how.set("rows", Bridge.parsed(info.schema().json()));
      how.put("case-sensitive", SQLConf.get().caseSensitiveAnalysis());
    }

    @Override
    public boolean canOverwrite(Filter[] filters) {
      return !untold(filters);
    }

    @Override
    public WriteBuilder overwrite(Filter[] filters) {
      how.put("mode", "overwrite").set("filters", Filters.described(filters));
      return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
      how.put("mode", "dynamic");
      return this;
    }

    @Override
    public Write build() {
      SealedBatch batch = new SealedBatch(table, how, table.ask("begin-write", how.deepCopy()), false, null);
      return new Insert(batch) {
        @Override
        public StreamingWrite toStreaming() {
          return new SealedBatch.Streaming(batch, queryId);
        }
      };
    }
  }

  /** Rows are asked for clustered and sorted by partition, then in the sort order of the table. */
  private static class Insert implements RequiresDistributionAndOrdering {
    final SealedBatch batch;
    final JsonNode plan;

    Insert(SealedBatch batch) {
      this.batch = batch;
      this.plan = batch.plan;
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
      return plan.get("distribution").asText().equals("none") ? 0 : plan.path("advisory-size").asLong(0);
    }

    Expression[] clustering() {
      return batch.table.partitioning();
    }

    @Override
    public SortOrder[] requiredOrdering() {
      List<SortOrder> orders = new ArrayList<>();
      if (plan.get("clustered").asBoolean()) {
        for (Expression partition : batch.table.partitioning()) {
          orders.add(Expressions.sort(partition, SortDirection.ASCENDING));
        }
      }
      for (JsonNode one : plan.get("order")) {
        Expression by = one.get("transform").asText().equals("identity")
            ? Expressions.column(one.get("column").asText())
            : SealedTable.transform(one);
        SortDirection direction = one.get("descending").asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING;
        NullOrdering nulls = one.get("nulls-first").asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST;
        orders.add(Expressions.sort(by, direction, nulls));
      }
      return orders.toArray(new SortOrder[0]);
    }
  }

  // -- DELETE, UPDATE, MERGE --------------------------------------------------------------------------

  /** What both ways share. The scan is remembered: by its filters others' commits are judged, and for its files. */
  private abstract static class Operation implements RowLevelOperation {
    final SealedTable table;
    private final Command command;
    final ObjectNode how;
    SealedScan.Builder scan;

    Operation(SealedTable table, Command command, String mode) {
      this.table = table;
      this.command = command;
      this.how = Bridge.object().put("mode", mode).put("command", SealedTable.named(command));
      how.set("settings", SessionSettings.current());
    }

    @Override
    public Command command() {
      return command;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      scan = new SealedScan.Builder(table.readBy(options, true), this instanceof Files, options);
      return scan;
    }

    SealedBatch batch(LogicalWriteInfo info) {
      for (String name : info.schema().fieldNames()) {
        if (SealedTable.isExtra(name)) {  // Spark takes it for a column whose values are to be written
          throw Bridge.raised(Bridge.analysis(table.name() + ": " + SealedTable.named(command)
              + " by the metadata column " + name + " is not possible; choose the rows by other columns"));
        }
      }
      boolean lineage = this instanceof Files || command != Command.DELETE;
      how.set("options", Bridge.strings(info.options().asCaseSensitiveMap()));
      return new SealedBatch(table, how, table.ask("begin-write", how.deepCopy()), lineage, info);
    }

    static NamedReference[] columns(String... names) {
      return Arrays.stream(names).map(Expressions::column).toArray(NamedReference[]::new);
    }
  }

  /** Copy-on-write: Spark reads the files that are touched and writes what is left of them, rows with their ids. */
  static final class Files extends Operation {
    Files(SealedTable table, Command command) {
      super(table, command, "files");
    }

    @Override
    public NamedReference[] requiredMetadataAttributes() {
      return columns(SealedTable.FILE, SealedTable.ROW_ID, SealedTable.LAST_UPDATED);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return new WriteBuilder() {
        @Override
        public Write build() {
          SealedBatch batch = batch(info);
          batch.scan = () -> scan;
          return new Insert(batch);
        }
      };
    }
  }

  /** Merge-on-read: Spark finds the rows that go, and writes those that come. */
  static final class Rows extends Operation implements SupportsDelta {
    Rows(SealedTable table, Command command) {
      super(table, command, "rows");
    }

    @Override
    public NamedReference[] rowId() {
      return columns(SealedTable.FILE, SealedTable.POS);
    }

    @Override
    public NamedReference[] requiredMetadataAttributes() {
      return command() == Command.DELETE ? columns() : columns(SealedTable.ROW_ID);
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
          SealedBatch batch = batch(info);
          batch.scan = () -> scan;
          return new Delta(batch);
        }
      };
    }
  }

  /** Rows that come have no file yet, and rows that go no partition: each finds its own by both. */
  private static final class Delta extends Insert implements DeltaWrite {
    Delta(SealedBatch batch) {
      super(batch);
    }

    @Override
    public DeltaBatchWrite toBatch() {
      return batch;
    }

    @Override
    Expression[] clustering() {
      List<Expression> by = new ArrayList<>(List.of(Expressions.column(SealedTable.FILE)));
      by.addAll(Arrays.asList(super.clustering()));
      return by.toArray(new Expression[0]);
    }
  }
}
