package sealberg.read;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import sealberg.bridge.PythonBridge;
import sealberg.catalog.EncryptedTable;

/**
 * The appends to a table, batch by batch: Python says how far the next one goes and which files
 * that are.
 *
 * <pre>
 *   offsets, as text that only Python understands ──> the checkpoint
 *   files with their keys                         ──> tasks, which read them as in any other scan
 * </pre>
 */
final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
  private static final String START =
      "{\"version\":1,\"snapshot_id\":-1,\"position\":-1,\"scan_all_files\":false}";
  private final EncryptedTable table;
  private final BatchScan scan;
  private final CaseInsensitiveStringMap options;
  private JsonNode last; // the snapshot that a query ends at which takes what is there now

  TableStream(EncryptedTable table, BatchScan scan, CaseInsensitiveStringMap options) {
    this.table = table;
    this.scan = scan;
    this.options = options;
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
    return new At(START);
  }

  @Override
  public Offset deserializeOffset(String text) {
    return new At(text);
  }

  /** The limits are options, which Python knows; all that matters here is whether they count. */
  @Override
  public ReadLimit getDefaultReadLimit() {
    return ReadLimit.maxFiles(Integer.MAX_VALUE);
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    last = table.ask("stream-last", PythonBridge.object());
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    ObjectNode arguments = asked(start).put("all", limit instanceof ReadAllAvailable);
    if (last != null) {
      arguments.set("last", last);
    }
    return new At(table.ask("stream-latest", arguments).asText());
  }

  @Override
  public Offset latestOffset() {
    throw new UnsupportedOperationException("a batch ends where its limits say");
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return scan.tasks(scan.planned("stream-plan", asked(start).put("end", end.json())));
  }

  private ObjectNode asked(Offset start) {
    ObjectNode arguments = PythonBridge.object().put("start", start.json());
    arguments.set("options", PythonBridge.strings(options.asCaseSensitiveMap()));
    return arguments;
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
