package org.apache.iceberg;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hive.HiveCatalog;
import org.apache.iceberg.io.CloseableIterable;

/**
 * What Iceberg Java does when A plans, B and C commit, and A commits then.
 *
 * <pre>java ConflictPairs METASTORE-URI FOLDER CASES.json VERDICTS.json</pre>
 *
 * CASES.json has the first commits of every table ("seed"), the operations of A, and the pairs (B, C). For each pair
 * a Hive table is made, every A is planned at its head, B and C are committed, and then each A is committed on the
 * table as C left it. What A, B and C do is in ConflictOperations.
 */
public class ConflictPairs {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final HiveCatalog catalog;
  private final HiveConf hive;
  private final JsonNode cases;
  private final ConflictOperations operations;

  private ConflictPairs(String uri, String folder, JsonNode cases) {
    this.hive = new HiveConf(new Configuration(), ConflictPairs.class);
    hive.set("hive.metastore.uris", uri);
    this.operations = new ConflictOperations(folder);
    this.cases = cases;
    this.catalog = new HiveCatalog();
    catalog.setConf(hive);
    catalog.initialize("hive", Map.of("uri", uri, "warehouse", "file://" + folder));
    if (!catalog.namespaceExists(Namespace.of("pairs"))) {
      catalog.createNamespace(Namespace.of("pairs"), Map.of("location", "file://" + folder + "/pairs"));
    }
  }

  public static void main(String[] arguments) {
    try {
      runAll(arguments);
      System.exit(0); // the pools of Hive's clients would keep the process
    } catch (Throwable failed) {
      failed.printStackTrace();
      System.exit(1);
    }
  }

  private static void runAll(String[] arguments) throws Exception {
    JsonNode cases = JSON.readTree(new File(arguments[2]));
    ConflictPairs all = new ConflictPairs(arguments[0], arguments[1], cases);
    ExecutorService threads = Executors.newFixedThreadPool(2);
    Map<String, Future<ObjectNode>> found = new LinkedHashMap<>();
    int number = 0;
    for (JsonNode pair : cases.get("pairs")) {
      String table = "t" + number++;
      found.put(pair.get("name").asText(), threads.submit(() -> all.run(table, pair)));
    }
    ObjectNode verdicts = JSON.createObjectNode();
    for (Map.Entry<String, Future<ObjectNode>> each : found.entrySet()) {
      try {
        verdicts.set(each.getKey(), each.getValue().get());
      } catch (ExecutionException failed) {
        throw new IllegalStateException("B or C could not be committed: " + each.getKey(), failed.getCause());
      }
    }
    JSON.writeValue(new File(arguments[3]), verdicts);
  }

  private ObjectNode run(String name, JsonNode pair) throws Exception {
    TableIdentifier id = TableIdentifier.of("pairs", name);
    Map<String, String> properties =
        Map.of("format-version", "3", "engine.hive.lock-enabled", "false", "commit.retry.min-wait-ms", "1");
    Table table = catalog.buildTable(id, ConflictOperations.SCHEMA).withPartitionSpec(ConflictOperations.SPEC).withProperties(properties).create();
    for (JsonNode operation : cases.get("seed")) {
      commit(table, operation, "seed");
    }
    Map<String, PendingUpdate<?>> plans = new LinkedHashMap<>();
    Map<String, TableMetadata> changed = new LinkedHashMap<>();
    for (JsonNode operation : cases.get("planned")) {
      Table planning = catalog.loadTable(id);
      String planned = operation.get("name").asText();
      plans.put(planned, operations.plan(planning, operation, "A"));
      TableMetadata base = ((HasTableOperations) planning).operations().current();
      TableMetadata after = changed(base, operation, plans.get(planned));
      if (after != null) {
        changed.put(planned, after);
      }
    }
    TableMetadata begun = ((HasTableOperations) catalog.loadTable(id)).operations().current();
    table.refresh();
    commit(table, pair.get("second"), "B");
    for (JsonNode operation : pair.get("third")) {
      commit(table, operation, "C");
    }
    HiveMetaStoreClient client = new HiveMetaStoreClient(hive);
    org.apache.hadoop.hive.metastore.api.Table left = client.getTable("pairs", name);
    ObjectNode verdicts = JSON.createObjectNode();
    for (Map.Entry<String, PendingUpdate<?>> each : plans.entrySet()) {
      String verdict;
      try {
        each.getValue().commit();
        verdict = "allowed: " + state(catalog.loadTable(id));
        client.alter_table("pairs", name, left);
      } catch (RuntimeException refused) {
        verdict = "refused: " + refused.getClass().getSimpleName() + ": " + refused.getMessage();
      }
      verdicts.put(each.getKey(), verdict);
    }
    client.close();
    for (Map.Entry<String, TableMetadata> each : changed.entrySet()) {
      verdicts.put(each.getKey() + " (REST)", byRequirements(begun, each.getValue(), catalog.loadTable(id)));
    }
    return verdicts;
  }

  /** The metadata that a change of metadata alone leads to; null for changes of rows. */
  private static TableMetadata changed(TableMetadata base, JsonNode operation, PendingUpdate<?> plan) {
    return switch (operation.get("do").asText()) {
      case "schema" -> base.updateSchema(((UpdateSchema) plan).apply());
      case "spec" -> base.updatePartitionSpec(((UpdatePartitionSpec) plan).apply());
      case "tag" ->
          TableMetadata.buildFrom(base)
              .setRef("A", SnapshotRef.tagBuilder(base.currentSnapshot().snapshotId()).build())
              .build();
      case "remove_branch" -> TableMetadata.buildFrom(base).removeRef("old").build();
      default -> null;
    };
  }

  /** As Java's client and server do with a REST catalog: the requirements of the changes are checked, not the base. */
  private String byRequirements(TableMetadata base, TableMetadata after, Table table) {
    TableMetadata left = ((HasTableOperations) table).operations().current();
    try {
      UpdateRequirements.forUpdateTable(base, after.changes()).forEach(requirement -> requirement.validate(left));
      TableMetadata.Builder builder = TableMetadata.buildFrom(left);
      after.changes().forEach(update -> update.applyTo(builder));
      builder.build();
      return "allowed";
    } catch (RuntimeException refused) {
      return "refused: " + refused.getClass().getSimpleName() + ": " + refused.getMessage();
    }
  }

  /** The rows of each branch, read by Iceberg's own reader. */
  private String state(Table table) {
    List<String> branches = new ArrayList<>();
    for (String branch : List.of("main", "old")) {
      if (table.refs().containsKey(branch)) {
        branches.add(branch + " " + rows(table, table.refs().get(branch).snapshotId()));
      }
    }
    return String.join(" | ", branches);
  }

  private static String rows(Table table, long snapshotId) {
    List<ConflictOperations.Row> rows = new ArrayList<>();
    try (CloseableIterable<Record> found =
        IcebergGenerics.read(table).useSnapshot(snapshotId).select("id", "p", "v").build()) {
      found.forEach(
          row ->
              rows.add(
                  new ConflictOperations.Row(
                      (Long) row.getField("id"), (String) row.getField("p"), (String) row.getField("v"))));
    } catch (IOException | RuntimeException unreadable) {
      return "unreadable: " + unreadable.getMessage();
    }
    return rows.stream()
        .sorted(Comparator.comparing(ConflictOperations.Row::id).thenComparing(ConflictOperations.Row::v))
        .map(row -> row.id() + row.v())
        .collect(Collectors.joining(" "));
  }

  private void commit(Table table, JsonNode operation, String who) {
    table.refresh();
    PendingUpdate<?> update = operations.plan(table, operation, who);
    if (update != null) {
      update.commit();
    }
    table.refresh();
  }
}
