package sealberg.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/**
 * Iceberg's DDL: what ALTER TABLE has in Iceberg and not in Spark.
 *
 * <pre>
 *   ADD | DROP | REPLACE PARTITION FIELD transform [WITH transform] [AS name]
 *   WRITE [LOCALLY] ORDERED BY order | WRITE UNORDERED | WRITE DISTRIBUTED BY PARTITION
 *   SET | DROP IDENTIFIER FIELDS name, ...
 *   CREATE [OR REPLACE] | REPLACE BRANCH | TAG [IF NOT EXISTS] name [AS OF VERSION id] [RETAIN ...]
 *   DROP BRANCH | TAG [IF EXISTS] name
 * </pre>
 *
 * A transform is passed on as text: Python knows the transforms and the columns.
 */
final class StatementParser {
  /** What this lets through is looked at word by word. */
  private static final Pattern MAYBE =
      Pattern.compile(
          "\\b(PARTITION\\s+FIELD|WRITE|IDENTIFIER\\s+FIELDS|BRANCH|TAG)\\b",
          Pattern.CASE_INSENSITIVE);

  private final Tokens words;

  private StatementParser(String sql) {
    this.words = new Tokens(sql);
  }

  /** The statement, or null if it is not of Iceberg's DDL. */
  static TableStatement parse(String sql) {
    // Every statement of a session comes here, so all but ALTER leave after their first word.
    if (!Tokens.beginsWith(sql, "ALTER") || !MAYBE.matcher(sql).find()) {
      return null;
    }
    return new StatementParser(sql).statement();
  }

  private TableStatement statement() {
    if (!words.read("ALTER", "TABLE")
        || words.peek().kind() == Tokens.Kind.SYMBOL
        || words.peek().kind() == Tokens.Kind.END) {
      return null;
    }
    List<String> table = words.identifiers();
    TableStatement found = clause(table);
    if (found != null) {
      words.expectEnd();
    }
    return found;
  }

  private TableStatement clause(List<String> table) {
    if (words.read("ADD", "PARTITION", "FIELD")) {
      return TableStatement.of(
          table, "add_partition_field", "transform", transform(), "name", alias());
    }
    if (words.read("DROP", "PARTITION", "FIELD")) {
      return TableStatement.of(table, "drop_partition_field", "transform", transform());
    }
    if (words.read("REPLACE", "PARTITION", "FIELD")) {
      String former = transform();
      words.expect("WITH");
      return TableStatement.of(
          table,
          "replace_partition_field",
          "transform",
          former,
          "with",
          transform(),
          "name",
          alias());
    }
    if (words.read("SET", "IDENTIFIER", "FIELDS")) {
      return TableStatement.of(table, "set_identifier_fields", "fields", fields());
    }
    if (words.read("DROP", "IDENTIFIER", "FIELDS")) {
      return TableStatement.of(table, "drop_identifier_fields", "fields", fields());
    }
    if (words.read("WRITE")) {
      return writeOrder(table);
    }
    return ref(table);
  }

  // -- transforms and orders --------------------------------------------------------------------

  /** A column, or a transform with its arguments, as text. */
  private String transform() {
    Tokens.Word first = words.peek();
    words.identifiers();
    if (words.read("(")) {
      do {
        words.identifiers();
      } while (words.read(","));
      words.expect(")");
    }
    return words.textFrom(first);
  }

  private String alias() {
    return words.read("AS") ? words.name() : null;
  }

  private List<String> fields() {
    List<String> fields = new ArrayList<>();
    do {
      fields.add(String.join(".", words.identifiers()));
    } while (words.read(","));
    return fields;
  }

  private TableStatement writeOrder(List<String> table) {
    String mode = null;
    List<String> order = List.of();
    boolean distributed = false;
    boolean ordered = false;
    while (words.peek().kind() == Tokens.Kind.WORD) {
      if (!distributed && words.read("DISTRIBUTED")) {
        words.expect("BY", "PARTITION");
        mode = "hash";
        distributed = true;
      } else if (!ordered && words.read("UNORDERED")) {
        mode = distributed ? mode : "none";
        ordered = true;
      } else if (!ordered) {
        boolean locally = words.read("LOCALLY");
        words.expect("ORDERED", "BY");
        mode = distributed || locally ? mode : "range";
        order = order();
        ordered = true;
      } else {
        throw words.unexpected("expected the end of the statement");
      }
    }
    if (!distributed && !ordered) {
      throw words.unexpected(
          "expected ORDERED BY, LOCALLY ORDERED BY, UNORDERED or DISTRIBUTED BY");
    }
    return TableStatement.of(table, "set_write_order", "distribution_mode", mode, "order", order);
  }

  private List<String> order() {
    List<String> order = new ArrayList<>();
    boolean inBrackets = words.read("(");
    do {
      Tokens.Word first = words.peek();
      transform();
      if (!words.read("ASC")) {
        words.read("DESC");
      }
      if (words.read("NULLS") && !words.read("FIRST")) {
        words.expect("LAST");
      }
      order.add(words.textFrom(first));
    } while (words.read(","));
    if (inBrackets) {
      words.expect(")");
    }
    return order;
  }

  // -- branches and tags ------------------------------------------------------------------------

  private TableStatement ref(List<String> table) {
    for (String kind : List.of("BRANCH", "TAG")) {
      if (words.read("DROP", kind)) {
        boolean ifExists = words.read("IF", "EXISTS");
        return TableStatement.of(
            table, "drop_ref", "kind", lower(kind), "name", words.name(), "if_exists", ifExists);
      }
      if (words.read("CREATE", "OR", "REPLACE", kind)) {
        return newRef(table, kind, true, true);
      }
      if (words.read("REPLACE", kind)) {
        return newRef(table, kind, false, true);
      }
      if (words.read("CREATE", kind)) {
        return newRef(table, kind, true, false);
      }
    }
    return null;
  }

  private TableStatement newRef(List<String> table, String kind, boolean create, boolean replace) {
    boolean ifNotExists = !replace && words.read("IF", "NOT", "EXISTS");
    String name = words.name();
    Long snapshot = null;
    if (words.read("AS", "OF")) {
      words.expect("VERSION");
      snapshot = words.number();
    }
    Long refAge = words.read("RETAIN") ? duration(words.number()) : null;
    Long leastSnapshots = null;
    Long snapshotAge = null;
    if (kind.equals("BRANCH") && words.read("WITH")) {
      words.expect("SNAPSHOT", "RETENTION");
      long number = words.number();
      if (words.read("SNAPSHOTS")) {
        leastSnapshots = number;
        snapshotAge = Tokens.isNumber(words.peek()) ? duration(words.number()) : null;
      } else {
        snapshotAge = duration(number);
      }
    }
    return TableStatement.of(
        table,
        "create_ref",
        "kind",
        lower(kind),
        "name",
        name,
        "create",
        create,
        "replace",
        replace,
        "if_not_exists",
        ifNotExists,
        "snapshot_id",
        snapshot,
        "max_ref_age_ms",
        refAge,
        "min_snapshots_to_keep",
        leastSnapshots,
        "max_snapshot_age_ms",
        snapshotAge);
  }

  private long duration(long number) {
    for (TimeUnit unit : List.of(TimeUnit.DAYS, TimeUnit.HOURS, TimeUnit.MINUTES)) {
      if (words.read(unit.name())) {
        return unit.toMillis(number);
      }
    }
    throw words.unexpected("expected DAYS, HOURS or MINUTES");
  }

  private static String lower(String word) {
    return word.toLowerCase(Locale.ROOT);
  }
}
