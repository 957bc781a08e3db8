package sealberg.read;

import java.util.Map;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.StreamMessages.LatestOffset;
import sealberg.bridge.StreamMessages.StreamHead;
import sealberg.bridge.StreamMessages.StreamScanRequest;
import sealberg.bridge.StreamMessages.StreamStart;
import sealberg.catalog.EncryptedTable;

/**
 * The appends to a table, batch by batch: Python decides where the next batch ends and which files
 * it has.
 *
 * <pre>
 *   offsets, as text that only Python understands ──> the checkpoint
 *   files with their keys                         ──> tasks, which read them as in any other scan
 * </pre>
 */
final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private final EncryptedTable table;
  private final BatchScan scan;
  private final Map<String, String> options;
  private Long head; // the snapshot at which a query with Trigger.AvailableNow ends

  TableStream(EncryptedTable table, BatchScan scan, CaseInsensitiveStringMap options) {
    this.table = table;
    this.scan = scan;
    this.options = options.asCaseSensitiveMap();
  }

  private static final class At extends Offset {
    private final String text;

    At(String text) {
      this.text = text;
    }

    @Override
    public String json() {
      return text;
    }
  }

  @Override
  public Offset initialOffset() {
    return new At(table.ask(new StreamStart()));
  }

  @Override
  public Offset deserializeOffset(String text) {
    return new At(text);
  }

  /** The limits are options, which Python reads. Spark only needs to know whether they apply. */
  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimit.maxFiles(Integer.MAX_VALUE);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    head = table.ask(new StreamHead(table.handle()));
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    boolean readAll = limit instanceof ReadAllAvailable;
    return new At(
        table.ask(new LatestOffset(table.handle(), options, start.json(), readAll, head)));
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException(
        "internal error: latestOffset was called without a start offset and a limit");
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return scan.tasks(
        scan.splits(
            table.ask(
                new StreamScanRequest(
                    table.handle(), scan.readSchema(), options, start.json(), end.json()))));
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return scan.reader(true);
  }

  @Override
  public void commit(Offset end) {}

  @Override
  public void stop() {}
}
