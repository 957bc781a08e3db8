package sealberg.bridge;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.CurrentUserContext;

/**
 * The servers for SQL that run in this JVM, however they were started, and who speaks through them.
 *
 * <p>Their classes may be missing, and a program can start a Thrift server in the middle of its
 * work, so the objects of the servers are asked by reflection.
 */
final class RunningServers {
  private static final String THRIFT = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2$";
  private static final String CONNECT = "org.apache.spark.sql.connect.service.SparkConnectService$";

  private static final String UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
  private static final Pattern CONNECT_TAG =
      Pattern.compile("SparkConnect_OperationTag_User_(.*)_Session_" + UUID + "_Operation_" + UUID);

  /** A user of a server, and whether the server has proved that it is he. */
  record User(String name, boolean authenticated) {}

  private RunningServers() {}

  /** Their names, as {@link ServerCheck} knows them. */
  static String names() {
    List<String> found = new ArrayList<>();
    if (has(THRIFT, "listener")) {
      found.add("HiveThriftServer2");
    }
    if (has(CONNECT, "server")) {
      found.add("SparkConnectServer");
    }
    return String.join(", ", found);
  }

  private static boolean has(String object, String part) {
    for (ClassLoader loader :
        new ClassLoader[] {
          SparkContext.class.getClassLoader(), Thread.currentThread().getContextClassLoader()
        }) {
      try {
        Class<?> type = Class.forName(object, true, loader);
        return type.getMethod(part).invoke(type.getField("MODULE$").get(null)) != null;
      } catch (ReflectiveOperationException | LinkageError error) {
        // Not of this loader: Spark Connect may have come by --packages.
      }
    }
    return false;
  }

  /**
   * Whoever sent the statement of this thread to a server; null where no server says.
   *
   * <p>A client of Spark Connect names himself, and its token is one for all; the Thrift server has
   * checked a password or a ticket, unless it asks for none.
   *
   * @param thriftAsks whether the Thrift server authenticates
   */
  static User user(SparkContext context, boolean thriftAsks) {
    String tags = context.getLocalProperty("spark.job.tags");
    for (String tag : tags == null ? new String[0] : tags.split(",")) {
      Matcher found = CONNECT_TAG.matcher(tag);
      if (found.matches()) {
        return new User(found.group(1), false);
      }
    }
    String thrift = CurrentUserContext.CURRENT_USER().get();
    return thrift == null || thrift.isEmpty() ? null : new User(thrift, thriftAsks);
  }
}
