package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.ScanMessages.ScanPlan;
import sealberg.bridge.TableMessages.TableHandle;

/** Reads of metadata tables. Python's {@code metadata_tables}. */
public final class MetadataTableMessages {
  private MetadataTableMessages() {}

  /** The snapshot that the options of a read choose of a metadata table. */
  public record ResolveMetadataOptions(TableHandle handle, String kind, Map<String, String> options)
      implements Request.OfRead<TableHandle> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }

  /**
   * The rows themselves, if they are few; else a plan by which tasks read them.
   *
   * @param rows Python's {@code arrow_json} says how the values are encoded
   * @param plan its files are pieces of the metadata table, each for one task
   */
  public record MetadataPlan(@Nullable List<List<JsonNode>> rows, @Nullable ScanPlan plan)
      implements Message {}

  /** The rows of a metadata table; {@code columns} are whole columns of its schema. */
  public record MetadataScanRequest(TableHandle handle, String kind, StructType columns)
      implements Request.OfRead<MetadataPlan> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
