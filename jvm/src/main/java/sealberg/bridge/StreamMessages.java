package sealberg.bridge;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.TableMessages.TableHandle;

/**
 * Streaming reads. An offset is its text, which only Python understands. Python's {@code streams}.
 */
public final class StreamMessages {
  private StreamMessages() {}

  /** The answer is the offset before the first batch of a stream. */
  public record StreamStart() implements Request.OfRead<String> {}

  /** The answer is the snapshot at which a query with Trigger.AvailableNow ends. */
  public record StreamHead(TableHandle handle) implements Request.OfRead<Long> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /**
   * The answer is the offset at which the next batch ends; no batch goes beyond the snapshot {@code
   * head}.
   */
  public record LatestOffset(
      TableHandle handle,
      Map<String, String> options,
      String start,
      boolean readAll,
      @Nullable Long head)
      implements Request.OfRead<String> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /** The files between two offsets. */
  public record StreamScanRequest(
      TableHandle handle, StructType columns, Map<String, String> options, String start, String end)
      implements Request.OfRead<ScanPlan> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
