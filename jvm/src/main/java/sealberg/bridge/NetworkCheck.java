package sealberg.bridge;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;

/**
 * Whether Spark's own network keeps keys and rows from others; {@code sealberg.spark.network} says
 * the same in Python.
 *
 * <pre>
 *   every master   spark.authenticate=true                       Spark's ports serve only who has the secret
 *   not local      spark.network.crypto.* with AES/GCM, or spark.ssl.rpc.enabled=true
 * </pre>
 */
final class NetworkCheck {
  private static final String ALLOW_CLEAR_NETWORK = "spark.sealberg.allowClearNetwork";
  private static final String AUTHENTICATE = "spark.authenticate";
  private static final String CRYPTO = "spark.network.crypto.enabled";
  private static final String CIPHER = "spark.network.crypto.cipher";
  private static final String FALLBACK = "spark.network.crypto.saslFallback";
  private static final String TLS = "spark.ssl.rpc.enabled";
  private static final String GCM = "AES/GCM/NoPadding";
  private static final Map<String, String> DEFAULTS =
      Map.of(
          ALLOW_CLEAR_NETWORK,
          "false",
          AUTHENTICATE,
          "false",
          CRYPTO,
          "false",
          CIPHER,
          "AES/CTR/NoPadding",
          FALLBACK,
          "true",
          TLS,
          "false");

  private record Setting(String name, String value) {}

  private NetworkCheck() {}

  /** Why this session must not get keys; null if it may. */
  static String refusal(Function<String, String> conf) {
    if (is(conf, ALLOW_CLEAR_NETWORK)) {
      return null;
    }
    String master = conf.apply("spark.master") == null ? "" : conf.apply("spark.master");
    boolean local = master.startsWith("local") && !master.startsWith("local-cluster");
    List<Setting> needed = new ArrayList<>();
    if (!is(conf, AUTHENTICATE)) {
      needed.add(new Setting(AUTHENTICATE, "true"));
    }
    if (!local && !is(conf, TLS)) {
      if (!is(conf, CRYPTO)) {
        needed.add(new Setting(CRYPTO, "true"));
      }
      if (!value(conf, CIPHER).equalsIgnoreCase(GCM)) {
        needed.add(new Setting(CIPHER, GCM));
      }
      if (is(conf, FALLBACK)) {
        needed.add(new Setting(FALLBACK, "false"));
      }
    }
    if (needed.isEmpty()) {
      return null;
    }
    String danger =
        local
            ? "other users of this host could ask Spark's ports for rows"
            : "keys and rows could be read or changed on the network";
    String found =
        needed.stream()
            .map(setting -> setting.name + "=" + value(conf, setting.name))
            .collect(Collectors.joining(", "));
    String wanted =
        needed.stream()
            .map(setting -> setting.name + "=" + setting.value)
            .collect(Collectors.joining(", "));
    String tls = local ? "" : " (or " + TLS + "=true with " + AUTHENTICATE + "=true)";
    return "with master "
        + (master.isEmpty() ? "unknown" : master)
        + ", "
        + danger
        + ": found "
        + found
        + ". Start Spark with "
        + wanted
        + tls
        + "; sealberg.spark.configure and `sealberg spark-conf` set this unless you set something"
        + " else. "
        + ALLOW_CLEAR_NETWORK
        + "=true accepts the risk";
  }

  private static String value(Function<String, String> conf, String name) {
    String found = conf.apply(name);
    return (found == null ? DEFAULTS.get(name) : found).strip();
  }

  private static boolean is(Function<String, String> conf, String name) {
    return value(conf, name).toLowerCase(Locale.ROOT).equals("true");
  }
}
