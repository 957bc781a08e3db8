import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.execution.SparkSqlParser;
import sealberg.sql.SqlExtensions;

/**
 * Hands statements to a parser that does nothing, and to ours before it, in turns: the difference is what ours costs.
 * (Spark's parser takes milliseconds, which vary by more than that; one parse of it is timed for comparison.)
 *
 * <p>Arguments: rounds, then statements in base64. Prints a line for each: nanoseconds with ours, without, Spark's own.
 */
public final class ParserLoop {
  private static final int TIMES = 2000; // in a round

  private ParserLoop() {}

  public static void main(String[] given) throws ParseException {
    ParserInterface spark = new SparkSqlParser();
    ParserInterface alone =
        (ParserInterface)
            Proxy.newProxyInstance(
                ParserLoop.class.getClassLoader(),
                new Class<?>[] {ParserInterface.class},
                (proxy, method, arguments) -> null);
    SparkSessionExtensions extensions = new SparkSessionExtensions();
    new SqlExtensions().apply(extensions);
    // No session: only a statement of Iceberg's DDL asks it for a catalog.
    ParserInterface ours = extensions.buildParser(null, alone);
    for (int i = 1; i < given.length; i++) {
      String sql = new String(Base64.getDecoder().decode(given[i]), StandardCharsets.UTF_8);
      double with = Double.MAX_VALUE;
      double without = Double.MAX_VALUE;
      for (int round = 0; round < Integer.parseInt(given[0]); round++) {
        with = Math.min(with, parse(ours, sql, TIMES));
        without = Math.min(without, parse(alone, sql, TIMES));
      }
      double whole = Math.min(parse(spark, sql, 1), parse(spark, sql, 1));
      System.out.println(with + " " + without + " " + whole);
    }
  }

  private static double parse(ParserInterface parser, String sql, int times) throws ParseException {
    long began = System.nanoTime();
    for (int i = 0; i < times; i++) {
      parser.parsePlan(sql);
    }
    return (System.nanoTime() - began) / (double) times;
  }
}
