package sealberg.write;

import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.SessionSettings;
import sealberg.bridge.WriteMessages;
import sealberg.bridge.WriteMessages.BeginWrite;
import sealberg.bridge.WriteMessages.WriteMode;
import sealberg.bridge.WriteMessages.WriteRequest;
import sealberg.catalog.EncryptedTable;
import sealberg.catalog.MetadataColumns;
import sealberg.read.TableScanBuilder;

/**
 * The base of copy-on-write and merge-on-read. It keeps the scan: the commit needs its filters to
 * detect conflicts, and its files.
 */
abstract class TableRowLevelOperation implements RowLevelOperation {
  final EncryptedTable table;
  private final Command command;
  private final WriteMode mode;
  private final Map<String, String> settings = SessionSettings.current();
  private TableScanBuilder scan;

  TableRowLevelOperation(EncryptedTable table, Command command, WriteMode mode) {
    this.table = table;
    this.command = command;
    this.mode = mode;
  }

  @Override
  public Command command() {
    return command;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    scan =
        new TableScanBuilder(
            table.readBy(options, true), this instanceof CopyOnWriteOperation, options);
    return scan;
  }

  BatchCommit batch(LogicalWriteInfo info) {
    for (String name : info.schema().fieldNames()) {
      // Spark would write the metadata column as a column of the table.
      if (MetadataColumns.contains(name)) {
        throw PythonBridge.raised(
            PythonBridge.analysis(
                table.name()
                    + ": "
                    + EncryptedTable.named(command)
                    + " by the metadata column "
                    + name
                    + " is not supported; select the rows by other columns"));
      }
    }
    boolean lineage = this instanceof CopyOnWriteOperation || command != Command.DELETE;
    WriteRequest write =
        new WriteRequest(
            table.handle(),
            mode,
            info.options().asCaseSensitiveMap(),
            settings,
            SQLConf.get().caseSensitiveAnalysis(),
            WriteMessages.Command.valueOf(command.name()),
            null,
            null);
    return new BatchCommit(
        table, write, table.ask(new BeginWrite(write)), lineage, info, () -> scan);
  }

  static NamedReference[] columns(String... names) {
    return Arrays.stream(names).map(Expressions::column).toArray(NamedReference[]::new);
  }
}
