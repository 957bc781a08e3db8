package org.apache.iceberg;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.CharSequenceSet;
import org.apache.iceberg.util.ContentFileUtil;
import org.apache.iceberg.util.DataFileSet;
import org.apache.iceberg.util.DeleteFileSet;

/**
 * The operations of ConflictPairs, each set up as SparkWrite, SparkPositionDeltaWrite, SparkTable.deleteWhere,
 * RewriteDataFilesCommitManager or RewriteManifestsSparkAction does for the isolation level.
 *
 * <p>In Iceberg's package, because manifest entries are.
 */
class ConflictOperations {
  static final Schema SCHEMA =
      new Schema(
          Types.NestedField.required(1, "id", Types.LongType.get()),
          Types.NestedField.required(2, "p", Types.StringType.get()),
          Types.NestedField.required(3, "v", Types.StringType.get()));
  static final PartitionSpec SPEC = PartitionSpec.builderFor(SCHEMA).identity("p").build();

  record Row(long id, String p, String v) {}

  private final String folder;
  // What each file holds, since this program wrote all of them; a plan needs no other look at them.
  private final Map<String, List<Row>> rowsOf = new ConcurrentHashMap<>();
  private final Map<String, Set<Long>> positionsOf = new ConcurrentHashMap<>();
  private final Map<String, DataFile> written = new ConcurrentHashMap<>();

  ConflictOperations(String folder) {
    this.folder = folder;
  }

  /** The update that does this operation on the table as it is now; null where B or C find nothing to do. */
  PendingUpdate<?> plan(Table table, JsonNode operation, String who) {
    return switch (operation.get("do").asText()) {
      case "append" -> append(table, operation, who);
      case "delete_file" -> table.newDelete().deleteFromRowFilter(filter(operation));
      case "delete_rows" ->
          mergeOnRead(operation)
              ? delta(table, operation, who, gone(table, operation), List.of(), false)
              : replaced(table, operation, who, gone(table, operation), List.of());
      case "overwrite" -> overwrite(table, operation, who);
      case "overwrite_rows" ->
          replaced(table, operation, who, gone(table, operation), newFiles(table, operation, who));
      case "replace_partitions" -> replacePartitions(table, operation, who);
      case "upsert" -> upsert(table, operation, who);
      case "rewrite" -> rewrite(table, operation, who);
      case "manifests" -> rewriteManifests(table);
      case "remove_added" -> removeAdded(table);
      case "expire" -> expire(table);
      case "rollback" -> table.manageSnapshots().rollbackTo(seeded(table, operation.get("to").asInt()));
      case "schema" -> table.updateSchema().addColumn(who, Types.StringType.get());
      case "spec" -> table.updateSpec().addField(who, Expressions.bucket("id", 4));
      case "property" ->
          table.updateProperties().set(operation.get("key").asText(), operation.get("value").asText());
      case "tag" -> table.manageSnapshots().createTag(who, table.currentSnapshot().snapshotId());
      case "branch" -> table.manageSnapshots().createBranch("old", table.currentSnapshot().snapshotId());
      case "remove_branch" -> table.manageSnapshots().removeBranch("old");
      default -> throw new IllegalArgumentException(operation.toString());
    };
  }

  private PendingUpdate<?> append(Table table, JsonNode operation, String who) {
    AppendFiles append = table.newAppend();
    newFiles(table, operation, who).forEach(append::appendFile);
    return operation.has("branch") ? append.toBranch(operation.get("branch").asText()) : append;
  }

  /** As MERGE does; rows that are updated and rows that are new have files of their own. */
  private PendingUpdate<?> upsert(Table table, JsonNode operation, String who) {
    Map<FileScanTask, Set<Long>> gone = gone(table, operation);
    Set<Long> known = new HashSet<>();
    gone.forEach((task, positions) -> positions.forEach(at -> known.add(rowsAt(task).get(at.intValue()).id())));
    List<Row> rows = rows(operation);
    List<DataFile> added = new ArrayList<>();
    for (boolean updated : new boolean[] {true, false}) {
      List<Row> some = rows.stream().filter(row -> known.contains(row.id()) == updated).collect(Collectors.toList());
      added.addAll(newFiles(table, some, who + " " + operation.get("name").asText()));
    }
    return mergeOnRead(operation)
        ? delta(table, operation, who, gone, added, true)
        : replaced(table, operation, who, gone, added);
  }

  /** As SparkWrite.OverwriteByFilter does with the options isolation-level and validate-from-snapshot-id. */
  private PendingUpdate<?> overwrite(Table table, JsonNode operation, String who) {
    OverwriteFiles overwrite = table.newOverwrite().overwriteByRowFilter(filter(operation));
    newFiles(table, operation, who).forEach(overwrite::addFile);
    overwrite.validateFromSnapshot(table.currentSnapshot().snapshotId()).validateNoConflictingDeletes();
    return serializable(operation) ? overwrite.validateNoConflictingData() : overwrite;
  }

  /** As SparkWrite.DynamicOverwrite does with the options isolation-level and validate-from-snapshot-id. */
  private PendingUpdate<?> replacePartitions(Table table, JsonNode operation, String who) {
    ReplacePartitions replace = table.newReplacePartitions();
    replace.validateFromSnapshot(table.currentSnapshot().snapshotId()).validateNoConflictingDeletes();
    if (serializable(operation)) {
      replace.validateNoConflictingData();
    }
    newFiles(table, operation, who).forEach(replace::addFile);
    return replace;
  }

  /** As SparkWrite.CopyOnWriteOperation does. */
  private PendingUpdate<?> replaced(
      Table table, JsonNode operation, String who, Map<FileScanTask, Set<Long>> gone, List<DataFile> added) {
    if (gone.isEmpty() && added.isEmpty() && !who.equals("A")) {
      return null;
    }
    OverwriteFiles overwrite = table.newOverwrite();
    DataFileSet files = DataFileSet.create();
    DeleteFileSet vectors = DeleteFileSet.create();
    for (Map.Entry<FileScanTask, Set<Long>> each : gone.entrySet()) {
      files.add(each.getKey().file());
      each.getKey().deletes().stream().filter(ContentFileUtil::isDV).forEach(vectors::add);
      List<Row> kept = live(each.getKey(), each.getValue());
      if (!kept.isEmpty()) {
        overwrite.addFile(newFile(table, kept, who + " " + operation.get("name").asText()));
      }
    }
    overwrite.deleteFiles(files, vectors);
    added.forEach(overwrite::addFile);
    overwrite.validateFromSnapshot(table.currentSnapshot().snapshotId());
    overwrite.conflictDetectionFilter(filter(operation));
    if (serializable(operation)) {
      overwrite.validateNoConflictingData();
    }
    return overwrite.validateNoConflictingDeletes();
  }

  /** As SparkPositionDeltaWrite does. */
  private PendingUpdate<?> delta(
      Table table,
      JsonNode operation,
      String who,
      Map<FileScanTask, Set<Long>> gone,
      List<DataFile> added,
      boolean updates) {
    if (gone.isEmpty() && added.isEmpty() && !who.equals("A")) {
      return null;
    }
    RowDelta delta = table.newRowDelta();
    OutputFileFactory puffins =
        OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PUFFIN).suffix("deletes").build();
    BaseDVFileWriter writer = new BaseDVFileWriter(puffins, path -> null);
    Map<String, Set<Long>> all = new LinkedHashMap<>();
    for (Map.Entry<FileScanTask, Set<Long>> each : gone.entrySet()) {
      FileScanTask task = each.getKey();
      Set<Long> positions = new HashSet<>(each.getValue());
      for (DeleteFile vector : task.deletes()) {
        positions.addAll(positionsOf.get(key(vector)));
        delta.removeDeletes(vector);
      }
      positions.forEach(at -> writer.delete(task.file().location(), at, task.spec(), task.file().partition()));
      all.put(task.file().location(), positions);
    }
    try {
      writer.close();
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
    for (DeleteFile vector : writer.result().deleteFiles()) {
      positionsOf.put(key(vector), all.get(vector.referencedDataFile()));
      delta.addDeletes(vector);
    }
    added.forEach(delta::addRows);
    CharSequenceSet referenced = CharSequenceSet.of(all.keySet());
    delta.conflictDetectionFilter(filter(operation));
    delta.validateDataFilesExist(referenced);
    delta.validateFromSnapshot(table.currentSnapshot().snapshotId());
    if (updates) {
      delta.validateDeletedFiles().validateNoConflictingDeleteFiles();
    }
    return serializable(operation) ? delta.validateNoConflictingDataFiles() : delta;
  }

  /** As RewriteDataFilesCommitManager does. */
  private PendingUpdate<?> rewrite(Table table, JsonNode operation, String who) {
    Snapshot head = table.currentSnapshot();
    RewriteFiles rewrite = table.newRewrite().validateFromSnapshot(head.snapshotId());
    boolean any = false;
    for (FileScanTask task : tasks(table, filter(operation))) {
      any = true;
      rewrite.deleteFile(task.file());
      task.deletes().stream().filter(ContentFileUtil::isDV).forEach(rewrite::deleteFile);
      rewrite.addFile(newFile(table, live(task, Set.of()), who + " rewrite"));
    }
    return any ? rewrite.dataSequenceNumber(head.sequenceNumber()) : null;
  }

  /** As RewriteManifestsSparkAction does: all entries of one kind as existing ones of one new manifest. */
  private PendingUpdate<?> rewriteManifests(Table table) {
    RewriteManifests rewrite = table.rewriteManifests();
    Map<Integer, PartitionSpec> specs = table.specs();
    List<ManifestFile> data = table.currentSnapshot().dataManifests(table.io());
    List<ManifestFile> deletes = table.currentSnapshot().deleteManifests(table.io());
    try {
      for (PartitionSpec spec : specs.values()) {
        ManifestWriter<DataFile> files = ManifestFiles.write(3, spec, manifest(table), null);
        carryOver(rewrite, data, spec, files, old -> ManifestFiles.read(old, table.io(), specs));
        ManifestWriter<DeleteFile> vectors = ManifestFiles.writeDeleteManifest(3, spec, manifest(table), null);
        carryOver(rewrite, deletes, spec, vectors, old -> ManifestFiles.readDeleteManifest(old, table.io(), specs));
      }
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
    return rewrite;
  }

  private static <F extends ContentFile<F>> void carryOver(
      RewriteManifests rewrite,
      List<ManifestFile> manifests,
      PartitionSpec spec,
      ManifestWriter<F> writer,
      Function<ManifestFile, ManifestReader<F>> open)
      throws IOException {
    boolean any = false;
    for (ManifestFile old : manifests) {
      if (old.partitionSpecId() != spec.specId()) {
        continue;
      }
      rewrite.deleteManifest(old);
      try (ManifestReader<F> reader = open.apply(old)) {
        for (ManifestEntry<F> entry : reader.entries()) {
          if (entry.isLive()) {
            any = true;
            writer.existing(
                entry.file().copy(), entry.snapshotId(), entry.dataSequenceNumber(), entry.fileSequenceNumber());
          }
        }
      }
    }
    writer.close();
    if (any) {
      rewrite.addManifest(writer.toManifestFile());
    }
  }

  private static OutputFile manifest(Table table) {
    TableOperations ops = ((HasTableOperations) table).operations();
    return table.io().newOutputFile(ops.metadataFileLocation("rewritten-" + UUID.randomUUID() + ".avro"));
  }

  /** The first data file that the head has added goes again. */
  private PendingUpdate<?> removeAdded(Table table) {
    String first =
        StreamSupport.stream(
                table.currentSnapshot().addedDataFiles(table.io()).spliterator(), false)
            .map(ContentFile::location)
            .sorted(Comparator.comparing((String path) -> rowsOf.get(path).get(0).id()))
            .findFirst()
            .orElseThrow();
    return table.newDelete().deleteFile(first);
  }

  /** Every snapshot goes that is not the head of a branch or a tag. */
  private PendingUpdate<?> expire(Table table) {
    Set<Long> kept = table.refs().values().stream().map(SnapshotRef::snapshotId).collect(Collectors.toSet());
    ExpireSnapshots expire = table.expireSnapshots().cleanExpiredFiles(false);
    for (Snapshot snapshot : table.snapshots()) {
      if (!kept.contains(snapshot.snapshotId())) {
        expire.expireSnapshotId(snapshot.snapshotId());
      }
    }
    return expire;
  }

  private static long seeded(Table table, int number) {
    List<Snapshot> snapshots = new ArrayList<>();
    table.snapshots().forEach(snapshots::add);
    snapshots.sort(Comparator.comparing(Snapshot::sequenceNumber));
    return snapshots.get(number).snapshotId();
  }

  // -- rows and files ---------------------------------------------------------------------------------

  private static boolean serializable(JsonNode operation) {
    return !operation.has("level") || operation.get("level").asText().equals("serializable");
  }

  private static boolean mergeOnRead(JsonNode operation) {
    return operation.get("mode").asText().equals("merge-on-read");
  }

  private static Expression filter(JsonNode operation) {
    JsonNode where = operation.get("where");
    Expression found = Expressions.alwaysTrue();
    if (where.has("p")) {
      found = Expressions.and(found, Expressions.equal("p", where.get("p").asText()));
    }
    if (where.has("id")) {
      found = Expressions.and(found, Expressions.in("id", ids(where).toArray()));
    }
    return found;
  }

  private static List<Long> ids(JsonNode where) {
    List<Long> ids = new ArrayList<>();
    where.get("id").forEach(id -> ids.add(id.asLong()));
    return ids;
  }

  private static List<FileScanTask> tasks(Table table, Expression filter) {
    try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(filter).planFiles()) {
      List<FileScanTask> found = new ArrayList<>();
      tasks.forEach(found::add);
      return found;
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
  }

  /** The positions of the live rows that match, of the files that have such rows. */
  private Map<FileScanTask, Set<Long>> gone(Table table, JsonNode operation) {
    JsonNode where = operation.get("where");
    List<Long> ids = where.has("id") ? ids(where) : null;
    Map<FileScanTask, Set<Long>> found = new LinkedHashMap<>();
    for (FileScanTask task : tasks(table, filter(operation))) {
      List<Row> rows = rowsAt(task);
      Set<Long> dead = dead(task);
      Set<Long> positions = new HashSet<>();
      for (long at = 0; at < rows.size(); at++) {
        Row row = rows.get((int) at);
        boolean matches =
            (ids == null || ids.contains(row.id())) && (!where.has("p") || where.get("p").asText().equals(row.p()));
        if (matches && !dead.contains(at)) {
          positions.add(at);
        }
      }
      if (!positions.isEmpty()) {
        found.put(task, positions);
      }
    }
    return found;
  }

  private Set<Long> dead(FileScanTask task) {
    Set<Long> dead = new HashSet<>();
    task.deletes().forEach(vector -> dead.addAll(positionsOf.get(key(vector))));
    return dead;
  }

  private List<Row> live(FileScanTask task, Set<Long> gone) {
    List<Row> rows = rowsAt(task);
    Set<Long> dead = dead(task);
    List<Row> kept = new ArrayList<>();
    for (long at = 0; at < rows.size(); at++) {
      if (!gone.contains(at) && !dead.contains(at)) {
        kept.add(rows.get((int) at));
      }
    }
    return kept;
  }

  private static String key(DeleteFile vector) {
    return vector.location() + "#" + vector.contentOffset();
  }

  private static List<Row> rows(JsonNode operation) {
    List<Row> rows = new ArrayList<>();
    operation.get("rows").forEach(
        row -> rows.add(new Row(row.get(0).asLong(), row.get(1).asText(), row.get(2).asText())));
    return rows;
  }

  private List<Row> rowsAt(FileScanTask task) {
    return rowsOf.get(task.file().location());
  }

  private List<DataFile> newFiles(Table table, JsonNode operation, String who) {
    return newFiles(table, rows(operation), who + " " + operation.get("name").asText());
  }

  /** One file for each partition of the rows. */
  private List<DataFile> newFiles(Table table, List<Row> rows, String role) {
    Map<String, List<Row>> byPartition = new LinkedHashMap<>();
    rows.forEach(row -> byPartition.computeIfAbsent(row.p(), p -> new ArrayList<>()).add(row));
    return byPartition.values().stream().map(some -> newFile(table, some, role)).collect(Collectors.toList());
  }

  /** Tables share files of the same role and rows: what a file is called decides nothing here. */
  private DataFile newFile(Table table, List<Row> rows, String role) {
    return written.computeIfAbsent(role + rows, unused -> write(table, rows));
  }

  private DataFile write(Table table, List<Row> rows) {
    GenericRecord partition = GenericRecord.create(SPEC.partitionType());
    partition.setField("p", rows.get(0).p());
    String location = "file://" + folder + "/files/" + UUID.randomUUID() + ".parquet";
    try {
      DataWriter<Record> writer =
          Parquet.writeData(table.io().newOutputFile(location))
              .schema(SCHEMA)
              .withSpec(SPEC)
              .withPartition(partition)
              .createWriterFunc(GenericParquetWriter::create)
              .build();
      for (Row row : rows) {
        GenericRecord record = GenericRecord.create(SCHEMA);
        record.setField("id", row.id());
        record.setField("p", row.p());
        record.setField("v", row.v());
        writer.write(record);
      }
      writer.close();
      DataFile file = writer.toDataFile();
      rowsOf.put(file.location(), rows);
      return file;
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
  }
}
