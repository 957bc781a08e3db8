import java.io.BufferedReader;
import java.io.FileReader;
import java.io.FileWriter;
import java.io.PrintWriter;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A Spark job in Java: runs SQL from one file, a statement a line, and writes rows to another.
 *
 * <pre>
 *   row    the values, a tab between two
 *   error  !, then its text with spaces for line ends
 *   end    . after each statement
 * </pre>
 */
public final class SqlJob {
  private SqlJob() {}

  public static void main(String[] paths) throws Exception {
    SparkSession.Builder builder = SparkSession.builder();
    // A standalone cluster gives a driver in cluster mode the secret of the cluster this way only.
    String secret = System.getenv("_SPARK_AUTH_SECRET");
    if (secret != null) {
      builder = builder.config("spark.authenticate.secret", secret);
    }
    SparkSession spark = builder.getOrCreate();
    try (BufferedReader statements = new BufferedReader(new FileReader(paths[0]));
        PrintWriter answers = new PrintWriter(new FileWriter(paths[1]), true)) {
      for (String sql = statements.readLine(); sql != null; sql = statements.readLine()) {
        try {
          for (Row row : spark.sql(sql).collectAsList()) {
            answers.println(row.mkString("\t"));
          }
        } catch (Exception error) {
          answers.println("!" + told(error).replaceAll("\\s+", " "));
        }
        answers.println(".");
      }
    }
    spark.stop();
  }

  private static String told(Throwable error) {
    return error == null ? "" : error + " " + told(error.getCause());
  }
}
