package sealberg.bridge;

import java.io.Serializable;
import java.util.List;
import java.util.Map;
import sealberg.bridge.TableMessages.TableHandle;

/** How tasks reach the files of a table. The settings are secrets. Python's {@code storage}. */
public final class StorageMessages {
  private StorageMessages() {}

  /**
   * Hadoop's settings of one kind of store.
   *
   * @param prefix of the names of all settings of this kind of store, fs.s3a. for instance
   * @param credentials which are left out where the user has set one of {@code credentialNames}
   */
  public record StoreSettings(
      String prefix,
      Map<String, String> settings,
      Map<String, String> credentials,
      List<String> credentialNames)
      implements Message, Serializable {
    @Override
    public String toString() {
      return "StoreSettings[" + prefix + "]"; // and no secret
    }
  }

  public record StorageSettings(List<StoreSettings> stores, @Nullable Long expiresAtMs)
      implements Message, Serializable {}

  /** A task whose credentials end soon asks for new ones. */
  public record RefreshStorage(TableHandle handle) implements Request<StorageSettings> {
    @Override
    public List<String> table() {
      return handle.table();
    }
  }
}
