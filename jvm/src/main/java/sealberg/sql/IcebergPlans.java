package sealberg.sql;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.connector.expressions.Transform;
import scala.Option;
import scala.Product;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * DDL that Iceberg's own extension has parsed, for a table of ours: the call of our procedure.
 *
 * <p>Of two extensions in a session, the parser of the last one is asked first. Iceberg's parser
 * takes its statements for tables of every catalog. Its plans are read by the names of their
 * classes: the jar of Iceberg is not there at compile time, and need not be at run time.
 */
final class IcebergPlans extends Rule<LogicalPlan> {
  private static final String PACKAGE = "org.apache.spark.sql.catalyst.plans.logical.";

  private final SparkSession session;

  IcebergPlans(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    TableStatement statement = statement(plan);
    String call = statement == null ? null : SqlExtensions.callOf(session, statement);
    if (call == null) {
      return plan;
    }
    try {
      return session.sessionState().sqlParser().parsePlan(call);
    } catch (ParseException error) {
      throw new IllegalStateException("internal error: the call of a procedure is not SQL", error);
    }
  }

  private static TableStatement statement(LogicalPlan plan) {
    String name = plan.getClass().getName();
    Product parts = plan;
    if (!name.startsWith(PACKAGE) || parts.productArity() < 2) {
      return null;
    }
    return switch (name.substring(PACKAGE.length())) {
      case "AddPartitionField" ->
          TableStatement.of(
              table(parts),
              "add_partition_field",
              "transform",
              transform(parts, 1),
              "name",
              option(parts, 2));
      case "DropPartitionField" ->
          TableStatement.of(table(parts), "drop_partition_field", "transform", transform(parts, 1));
      case "ReplacePartitionField" ->
          TableStatement.of(
              table(parts),
              "replace_partition_field",
              "transform",
              transform(parts, 1),
              "with",
              transform(parts, 2),
              "name",
              option(parts, 3));
      case "SetWriteDistributionAndOrdering" ->
          TableStatement.of(
              table(parts),
              "set_write_order",
              "distribution_mode",
              option(parts, 1) == null ? null : text(option(parts, 1), "modeName"),
              "order",
              order(list(parts.productElement(2))));
      case "SetIdentifierFields" ->
          TableStatement.of(
              table(parts), "set_identifier_fields", "fields", list(parts.productElement(1)));
      case "DropIdentifierFields" ->
          TableStatement.of(
              table(parts), "drop_identifier_fields", "fields", list(parts.productElement(1)));
      case "CreateOrReplaceBranch" -> newRef(parts, "branch");
      case "CreateOrReplaceTag" -> newRef(parts, "tag");
      case "DropBranch" -> oldRef(parts, "branch");
      case "DropTag" -> oldRef(parts, "tag");
      default -> null;
    };
  }

  private static TableStatement newRef(Product parts, String kind) {
    Product options = (Product) parts.productElement(2);
    boolean branch = kind.equals("branch"); // snapshot, least number, age of snapshots, age of ref
    return TableStatement.of(
        table(parts),
        "create_ref",
        "kind",
        kind,
        "name",
        parts.productElement(1),
        "create",
        parts.productElement(3),
        "replace",
        parts.productElement(4),
        "if_not_exists",
        parts.productElement(5),
        "snapshot_id",
        option(options, 0),
        "max_ref_age_ms",
        option(options, branch ? 3 : 1),
        "min_snapshots_to_keep",
        branch ? option(options, 1) : null,
        "max_snapshot_age_ms",
        branch ? option(options, 2) : null);
  }

  private static TableStatement oldRef(Product parts, String kind) {
    return TableStatement.of(
        table(parts),
        "drop_ref",
        "kind",
        kind,
        "name",
        parts.productElement(1),
        "if_exists",
        parts.productElement(2));
  }

  private static List<String> table(Product parts) {
    return list(parts.productElement(0)).stream().map(String::valueOf).toList();
  }

  private static String transform(Product parts, int at) {
    return ((Transform) parts.productElement(at)).describe();
  }

  private static Object option(Product parts, int at) {
    Option<?> option = (Option<?>) parts.productElement(at);
    return option.isEmpty() ? null : option.get();
  }

  private static List<?> list(Object items) {
    return CollectionConverters.asJava((Seq<?>) items);
  }

  /** Terms of Iceberg, such as bucket[16] of ref(name="id"), as text of SQL. */
  private static List<String> order(List<?> fields) {
    List<String> order = new ArrayList<>();
    for (Object field : fields) {
      Product parts = (Product) field;
      Object term = parts.productElement(0);
      boolean isTransform = has(term, "transform");
      String column = text(isTransform ? invoke(term, "ref") : term, "name");
      String direction = String.valueOf(parts.productElement(1)).toUpperCase(Locale.ROOT);
      String nulls = String.valueOf(parts.productElement(2)).toUpperCase(Locale.ROOT);
      order.add(
          (isTransform ? applied(text(term, "transform"), column) : column)
              + (direction.contains("DESC") ? " DESC" : " ASC")
              + (nulls.contains("LAST") ? " NULLS LAST" : " NULLS FIRST"));
    }
    return order;
  }

  /** bucket[16] as bucket(16, id), day as day(id). */
  private static String applied(String transform, String column) {
    int bracket = transform.indexOf('[');
    return bracket < 0
        ? transform + "(" + column + ")"
        : transform.substring(0, bracket)
            + "("
            + transform.substring(bracket + 1, transform.length() - 1)
            + ", "
            + column
            + ")";
  }

  private static boolean has(Object target, String method) {
    try {
      return target.getClass().getMethod(method) != null;
    } catch (NoSuchMethodException error) {
      return false;
    }
  }

  private static String text(Object target, String method) {
    return String.valueOf(invoke(target, method));
  }

  private static Object invoke(Object target, String method) {
    try {
      var found = target.getClass().getMethod(method);
      found.setAccessible(true);
      return found.invoke(target);
    } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException error) {
      throw new IllegalStateException(
          "internal error: Iceberg's " + target.getClass().getName() + " has no " + method, error);
    }
  }
}
