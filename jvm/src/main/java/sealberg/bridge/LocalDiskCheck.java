package sealberg.bridge;

import java.util.function.Function;

/**
 * Whether Spark encrypts what it writes to local disks: shuffles, spills and cached blocks hold
 * rows, and large tasks hold keys of files. {@code sealberg.spark.local_disks} says the same in
 * Python.
 */
final class LocalDiskCheck {
  private static final String ENCRYPTED = "spark.io.encryption.enabled";
  private static final String ALLOW_CLEAR_DISKS = "spark.sealberg.allowClearDisks";

  private LocalDiskCheck() {}

  /** Why this session must not get keys; null if it may. */
  static String refusal(Function<String, String> conf) {
    if (is(conf, ENCRYPTED) || is(conf, ALLOW_CLEAR_DISKS)) {
      return null;
    }
    return ENCRYPTED
        + " is off: Spark would write rows of shuffles, spills and cached tables, and keys of"
        + " files, to local disks in the clear, where other users may read them. Start Spark with "
        + ENCRYPTED
        + "=true; sealberg.spark.configure and `sealberg spark-conf` set this unless you set"
        + " something else. "
        + ALLOW_CLEAR_DISKS
        + "=true accepts the risk";
  }

  private static boolean is(Function<String, String> conf, String name) {
    String found = conf.apply(name);
    return found != null && found.strip().equalsIgnoreCase("true");
  }
}
