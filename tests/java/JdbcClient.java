import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.stream.Stream;

/**
 * A client of the Thrift server: SQL from stdin, a statement a line; answers as {@code SqlJob} writes them.
 *
 * <p>{@code cancel FOLDER 9 CALL ...} cancels a statement when there are nine Parquet files in FOLDER.
 */
public final class JdbcClient {
  private JdbcClient() {}

  public static void main(String[] where) throws Exception {
    Class.forName("org.apache.hive.jdbc.HiveDriver");
    try (Connection connection = DriverManager.getConnection(where[0], where[1], reversed(where[1]));
        Statement statement = connection.createStatement();
        BufferedReader statements = new BufferedReader(new InputStreamReader(System.in))) {
      for (String sql = statements.readLine(); sql != null; sql = statements.readLine()) {
        try {
          String[] parts = sql.split(" ", 4);
          boolean cancelled = parts[0].equals("cancel");
          if (cancelled) {
            cancelLater(statement, Path.of(parts[1]), Integer.parseInt(parts[2]));
          }
          execute(statement, cancelled ? parts[3] : sql, cancelled ? 1 : 5);
        } catch (SQLException error) {
          System.out.println("!" + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
        }
        System.out.println(".");
        System.out.flush();
      }
    }
  }

  /**
   * Executes a statement, again if its error came without a message: Spark's server shows that a
   * statement has failed before it has stored the reason, and a client may ask in between.
   */
  private static void execute(Statement statement, String sql, int attempts) throws SQLException {
    for (int attempt = 1; ; attempt++) {
      try {
        if (statement.execute(sql)) {
          print(statement.getResultSet());
        }
        return;
      } catch (SQLException error) {
        if (error.getMessage() != null || attempt == attempts) {
          throw error;
        }
      }
    }
  }

  private static void cancelLater(Statement statement, Path folder, int files) {
    Thread thread =
        new Thread(
            () -> {
              try {
                while (parquetFiles(folder) < files) {
                  Thread.sleep(20);
                }
                statement.cancel();
              } catch (IOException | InterruptedException | SQLException error) {
                throw new IllegalStateException(error);
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private static long parquetFiles(Path folder) throws IOException {
    try (Stream<Path> found = Files.walk(folder)) {
      return found.filter(path -> path.toString().endsWith(".parquet")).count();
    }
  }

  /** The password that {@code UserAsPassword} asks for. */
  private static String reversed(String user) {
    return new StringBuilder(user).reverse().toString();
  }

  private static void print(ResultSet rows) throws SQLException {
    int columns = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      StringBuilder row = new StringBuilder();
      for (int i = 1; i <= columns; i++) {
        row.append(i == 1 ? "" : "\t").append(rows.getString(i));
      }
      System.out.println(row);
    }
  }
}
