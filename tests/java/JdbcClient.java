import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** A client of the Thrift server: SQL from stdin, a statement a line; answers as {@code SqlJob} writes them. */
public final class JdbcClient {
  private JdbcClient() {}

  public static void main(String[] where) throws Exception {
    Class.forName("org.apache.hive.jdbc.HiveDriver");
    try (Connection connection = DriverManager.getConnection(where[0], where[1], reversed(where[1]));
        Statement statement = connection.createStatement();
        BufferedReader statements = new BufferedReader(new InputStreamReader(System.in))) {
      for (String sql = statements.readLine(); sql != null; sql = statements.readLine()) {
        try {
          if (statement.execute(sql)) {
            print(statement.getResultSet());
          }
        } catch (SQLException error) {
          System.out.println("!" + String.valueOf(error.getMessage()).replaceAll("\\s+", " "));
        }
        System.out.println(".");
        System.out.flush();
      }
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
