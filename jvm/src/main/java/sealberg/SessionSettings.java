package sealberg;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The settings of the session that Iceberg defines: {@code spark.wap.*} and {@code spark.sql.iceberg.*}.
 *
 * <p>Python checks and obeys them. They are read when a statement is planned, so that a write is committed as it was
 * planned, whatever the session sets meanwhile.
 */
final class SessionSettings {
  private SessionSettings() {}

  static ObjectNode current() {
    ObjectNode found = Bridge.object();
    SQLConf.get().getAllConfs().foreach(setting -> {
      if (setting._1.startsWith("spark.wap.") || setting._1.startsWith("spark.sql.iceberg.")) {
        found.put(setting._1, setting._2);
      }
      return null;
    });
    return found;
  }
}
