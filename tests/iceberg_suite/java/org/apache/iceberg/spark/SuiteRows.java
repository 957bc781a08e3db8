package org.apache.iceberg.spark;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.FileFormat;

/**
 * The rows of parameters of a test class, for the catalog under test and tables of version 3.
 *
 * <pre>
 *   -Dsuite.rows=one|all        one row, or all
 *   -Dsuite.row=N               which one, for DELETE, UPDATE and MERGE; others: the first
 *   -Dsuite.vectorized=false    where a class with Parquet chooses it at random
 * </pre>
 */
public final class SuiteRows {
  private static final boolean ALL = "all".equals(System.getProperty("suite.rows"));
  private static final int ROW = Integer.getInteger("suite.row", 0);
  private static final boolean VECTORIZED = !"false".equals(System.getProperty("suite.vectorized"));

  private SuiteRows() {}

  public static List<Object[]> of(List<Object[]> given, Map<Integer, Field> fields) {
    List<Object[]> made = new ArrayList<>();
    Set<String> seen = new HashSet<>();
    for (Object[] row : given) {
      change(row, fields);
      // sealberg has no ORC. Rows that differed by their catalog only are one.
      if (!Arrays.asList(row).contains(FileFormat.ORC) && seen.add(Arrays.deepToString(row))) {
        made.add(row);
      }
    }
    boolean many =
        fields.values().stream().anyMatch(field -> field.getName().equals("fanoutEnabled"));
    return ALL || made.isEmpty()
        ? made
        : List.<Object[]>of(made.get(many ? Math.min(ROW, made.size() - 1) : 0));
  }

  private static void change(Object[] row, Map<Integer, Field> fields) {
    if (hasCatalog(row)) {
      row[0] = SuiteSession.CATALOG;
      row[1] = SuiteSession.connector();
      row[2] = SuiteSession.properties();
      for (int i = 3; i < row.length; i++) {
        if (row[i] instanceof String text) { // the name of a table
          row[i] =
              text.replaceFirst(
                  "^(testhadoop|testrest|spark_catalog)\\.", SuiteSession.CATALOG + ".");
        }
      }
    }
    fields.forEach(
        (index, field) -> {
          if (index < row.length
              && field.getName().equals("formatVersion")
              && row[index] instanceof Integer) {
            row[index] = 3;
          }
          if (index < row.length
              && field.getName().equals("vectorized")
              && Arrays.asList(row).contains(FileFormat.PARQUET)) {
            row[index] = VECTORIZED;
          }
        });
  }

  private static boolean hasCatalog(Object[] row) {
    return row.length >= 3
        && row[0] instanceof String
        && row[1] instanceof String
        && row[2] instanceof Map;
  }

  /** The parameters but those of the catalog. */
  public static String label(Object[] row) {
    List<String> parts = new ArrayList<>();
    for (int i = hasCatalog(row) ? 3 : 0; i < row.length; i++) {
      parts.add(String.valueOf(row[i]));
    }
    return parts.isEmpty() ? "-" : String.join(", ", parts);
  }
}
