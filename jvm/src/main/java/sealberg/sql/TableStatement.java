package sealberg.sql;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A statement of Iceberg's DDL as the call of a procedure that does it.
 *
 * <pre>
 *   ALTER TABLE prod.hr.pay ADD PARTITION FIELD bucket(16, id)
 *   ──>  CALL `prod`.system.add_partition_field(table => 'hr.pay', transform => 'bucket(16, id)')
 * </pre>
 *
 * @param table the parts of its name, as the statement has them
 * @param arguments strings, numbers, booleans and lists of strings; those that are null are left
 *     out
 */
record TableStatement(List<String> table, String procedure, Map<String, Object> arguments) {

  static TableStatement of(List<String> table, String procedure, Object... named) {
    Map<String, Object> arguments = new LinkedHashMap<>();
    for (int i = 0; i < named.length; i += 2) {
      if (named[i + 1] != null) {
        arguments.put((String) named[i], named[i + 1]);
      }
    }
    return new TableStatement(table, procedure, arguments);
  }

  /** The call, in SQL that any parser of Spark reads in the same way, whatever its settings. */
  String call(String catalog, List<String> name) {
    String given =
        arguments.entrySet().stream()
            .map(argument -> ", " + argument.getKey() + " => " + literal(argument.getValue()))
            .collect(Collectors.joining());
    return "CALL "
        + quoted(catalog)
        + ".system."
        + procedure
        + "(table => "
        + literal(name.stream().map(TableStatement::quoted).collect(Collectors.joining(".")))
        + given
        + ")";
  }

  private static String quoted(String name) {
    return "`" + name.replace("`", "``") + "`";
  }

  private static String literal(Object value) {
    if (value instanceof List<?> items) {
      return items.stream()
          .map(TableStatement::literal)
          .collect(Collectors.joining(", ", "array(", ")"));
    }
    if (value instanceof Long) {
      return value + "L";
    }
    if (!(value instanceof String text)) {
      return String.valueOf(value);
    }
    // How quotes and backslashes are escaped depends on a setting of the session; hex does not.
    return text.matches("[\\w .,()`-]*")
        ? "'" + text + "'"
        : "CAST(X'" + hex(text) + "' AS STRING)";
  }

  private static String hex(String text) {
    return java.util.HexFormat.of()
        .formatHex(text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
  }
}
