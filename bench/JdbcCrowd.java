import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * Many clients of the Thrift server at once, each with a connection and a thread of its own.
 *
 * <pre>
 *   stdin    one query a line; %d becomes the number of the client
 *   stdout   nanoseconds, errors and the sum of all answers, a line for each query
 * </pre>
 *
 * The time runs from the moment when all clients start their query until the last of them has its answer.
 */
public final class JdbcCrowd {
  private JdbcCrowd() {}

  public static void main(String[] where) throws Exception {
    Class.forName("org.apache.hive.jdbc.HiveDriver");
    int clients = Integer.parseInt(where[1]);
    String password = new StringBuilder("ada").reverse().toString();
    List<Connection> connections = new ArrayList<>();
    for (int i = 0; i < clients; i++) {
      connections.add(DriverManager.getConnection(where[0], "ada", password));
    }
    ExecutorService threads = Executors.newFixedThreadPool(clients);
    Scanner queries = new Scanner(System.in);
    while (queries.hasNextLine()) {
      String query = queries.nextLine();
      long[] began = new long[1];
      CyclicBarrier start = new CyclicBarrier(clients, () -> began[0] = System.nanoTime());
      List<Future<Double>> answers = new ArrayList<>();
      for (int i = 0; i < clients; i++) {
        Connection connection = connections.get(i);
        String sql = String.format(query, i);
        answers.add(
            threads.submit(
                () -> {
                  try (Statement statement = connection.createStatement()) {
                    start.await();
                    try (ResultSet rows = statement.executeQuery(sql)) {
                      rows.next();
                      return rows.getDouble(1);
                    }
                  }
                }));
      }
      int errors = 0;
      double sum = 0;
      for (Future<Double> answer : answers) {
        try {
          sum += answer.get();
        } catch (java.util.concurrent.ExecutionException error) {
          errors++;
          System.err.println(error.getCause().getMessage());
        }
      }
      System.out.println((System.nanoTime() - began[0]) + " " + errors + " " + sum);
    }
    threads.shutdown();
    for (Connection connection : connections) {
      connection.close();
    }
  }
}
