package sealberg.bridge;

import java.util.function.Function;

/**
 * Whether a server for SQL in this JVM asks its clients who they are.
 *
 * <pre>
 *   Spark Connect    SPARK_CONNECT_AUTHENTICATE_TOKEN, spark.connect.authenticate.token or an interceptor of the operator
 *   Thrift server    hive.server2.authentication other than NONE and NOSASL
 * </pre>
 *
 * Every user of the host, and without a firewall every host of the network, could otherwise read
 * encrypted tables by asking the server, without a key.
 */
final class ServerCheck {
  static final String ALLOW_OPEN_SERVER = "spark.sealberg.allowOpenServer";
  private static final String TOKEN = "spark.connect.authenticate.token";
  private static final String TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN";
  private static final String INTERCEPTORS = "spark.connect.grpc.interceptor.classes";
  private static final String AUTHENTICATION = "hive.server2.authentication";

  private ServerCheck() {}

  /**
   * Why the clients of this JVM's servers must not get rows; null if they may.
   *
   * @param servers the servers that run in this JVM
   * @param conf settings of Spark, null for one that is not set
   * @param hive settings of Hive, the same
   * @param environment variables, the same
   */
  static String refusal(
      String servers,
      Function<String, String> conf,
      Function<String, String> hive,
      Function<String, String> environment) {
    if ("true".equalsIgnoreCase(conf.apply(ALLOW_OPEN_SERVER))) {
      return null;
    }
    boolean connect =
        servers.contains("SparkConnectServer")
            || has(conf.apply("spark.plugins"), "SparkConnectPlugin");
    if (connect
        && isBlank(environment.apply(TOKEN_VARIABLE))
        && isBlank(conf.apply(TOKEN))
        && isBlank(conf.apply(INTERCEPTORS))) {
      return refused(
          "Spark Connect server",
          TOKEN_VARIABLE + " is not set",
          "Start the server and its clients with " + TOKEN_VARIABLE + " in their environment");
    }
    if (servers.contains("HiveThriftServer2") && !thriftAsks(hive)) {
      String authentication = hive.apply(AUTHENTICATION);
      return refused(
          "Thrift server",
          AUTHENTICATION + "=" + (isBlank(authentication) ? "NONE" : authentication),
          "Start the server with --hiveconf " + AUTHENTICATION + "=LDAP, KERBEROS, PAM or CUSTOM");
    }
    return null;
  }

  /** Whether the Thrift server asks its clients for a password or a ticket. */
  static boolean thriftAsks(Function<String, String> hive) {
    String authentication = hive.apply(AUTHENTICATION);
    return !isBlank(authentication)
        && !authentication.equalsIgnoreCase("NONE")
        && !authentication.equalsIgnoreCase("NOSASL");
  }

  private static String refused(String server, String found, String wayOut) {
    return "this "
        + server
        + " asks nobody for a password, so everybody who reaches its port could read encrypted "
        + "tables: found "
        + found
        + ". "
        + wayOut
        + "; "
        + ALLOW_OPEN_SERVER
        + "=true accepts the risk";
  }

  private static boolean has(String list, String name) {
    return list != null && list.contains(name);
  }

  private static boolean isBlank(String value) {
    return value == null || value.isBlank();
  }
}
