package sealberg.procedure;

import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import sealberg.bridge.FilterMessages.AndFilter;
import sealberg.bridge.FilterMessages.CompareFilter;
import sealberg.bridge.FilterMessages.Comparison;
import sealberg.bridge.FilterMessages.FilterMessage;
import sealberg.bridge.FilterMessages.InFilter;
import sealberg.bridge.FilterMessages.IsNullFilter;
import sealberg.bridge.FilterMessages.NotFilter;
import sealberg.bridge.FilterMessages.NotNullFilter;
import sealberg.bridge.FilterMessages.OrFilter;
import sealberg.bridge.FilterMessages.TransformFilter;
import sealberg.bridge.FilterMessages.TrueFilter;
import sealberg.bridge.PythonBridge;
import sealberg.catalog.Functions;
import sealberg.read.FilterJson;

/**
 * The argument {@code where} of a procedure: Spark parses, resolves and optimizes it, as it does
 * with the filter of a query.
 *
 * <pre>
 *   day BETWEEN current_date() - 7 AND current_date()   ──>   day >= 20400 AND day <= 20407
 *   system.bucket(4, id) = 2                            ──>   bucket[4] of id = 2
 *   length(name) = 3                                    ──>   refused: the part is named
 * </pre>
 */
final class ResolvedFilter {
  private static final Map<String, String> TRANSFORMS =
      Map.of("years", "year", "months", "month", "days", "day", "hours", "hour");

  private final String text;

  private ResolvedFilter(String text) {
    this.text = text;
  }

  static FilterMessage of(String text, StructType columns) {
    return new ResolvedFilter(text).resolved(columns);
  }

  private FilterMessage resolved(StructType columns) {
    var state = SparkSession.active().sessionState();
    Expression parsed;
    try {
      parsed = state.sqlParser().parseExpression(text);
    } catch (Exception error) { // a ParseException, which Scala does not declare
      throw PythonBridge.raised(error);
    }
    if (SubqueryExpression.hasSubquery(parsed)) {
      throw refused(text);
    }
    LogicalPlan plan = new Filter(parsed, new TableColumns(columns));
    LogicalPlan found = state.executePlan(plan, CommandExecutionMode.SKIP()).optimizedPlan();
    if (found instanceof TableColumns) {
      return new TrueFilter();
    }
    if (found instanceof LocalRelation) {
      return new NotFilter(new TrueFilter());
    }
    if (found instanceof Filter filter && filter.child() instanceof TableColumns table) {
      return message(inTheirCase(filter.condition(), table));
    }
    throw refused(text);
  }

  /** With the columns spelled as in the table, and not as in the filter. */
  private static Expression inTheirCase(Expression condition, TableColumns table) {
    return DataSourceStrategy$.MODULE$
        .normalizeExprs(CollectionConverters.asScala(List.of(condition)).toList(), table.output())
        .head();
  }

  private FilterMessage message(Expression expression) {
    if (expression instanceof And and) {
      return both(and.left(), and.right(), AndFilter::new);
    }
    if (expression instanceof Or or) {
      return both(or.left(), or.right(), OrFilter::new);
    }
    if (expression instanceof Not not && not.child().dataType() instanceof BooleanType) {
      return negated(message(not.child()));
    }
    if (expression instanceof Literal literal) {
      return Boolean.TRUE.equals(literal.value())
          ? new TrueFilter()
          : new NotFilter(new TrueFilter());
    }
    FilterMessage found = translated(expression);
    if (found == null) {
      found = ofTransform(expression);
    }
    if (found == null) {
      throw refused(expression.sql());
    }
    return found;
  }

  /** Bounds decide what equals false, and not what differs from true. */
  private static FilterMessage negated(FilterMessage child) {
    return child instanceof CompareFilter compare
            && compare.op() == Comparison.EQ
            && Boolean.TRUE.equals(compare.value())
        ? new CompareFilter(Comparison.EQ, compare.column(), false)
        : new NotFilter(child);
  }

  private FilterMessage both(
      Expression left,
      Expression right,
      BiFunction<FilterMessage, FilterMessage, FilterMessage> combine) {
    return combine.apply(message(left), message(right));
  }

  /** What Spark pushes down to a source, or null. */
  private static FilterMessage translated(Expression expression) {
    Option<org.apache.spark.sql.sources.Filter> found =
        DataSourceStrategy$.MODULE$.translateFilter(expression, true);
    if (found.isEmpty()) {
      return null;
    }
    List<FilterMessage> messages =
        FilterJson.messages(new org.apache.spark.sql.sources.Filter[] {found.get()});
    return messages.isEmpty() ? null : messages.get(0);
  }

  // -- functions of the catalog -----------------------------------------------------------------

  /** A predicate on one transform of a column, or null. */
  private static FilterMessage ofTransform(Expression predicate) {
    ApplyFunctionExpression call =
        CollectionConverters.asJava(predicate.children()).stream()
            .filter(ApplyFunctionExpression.class::isInstance)
            .map(ApplyFunctionExpression.class::cast)
            .findFirst()
            .orElse(null);
    if (call == null || !Functions.isOurs(call.function())) {
      return null;
    }
    List<Expression> arguments = CollectionConverters.asJava(call.children());
    FilterMessage column = translated(new IsNotNull(arguments.get(arguments.size() - 1)));
    String transform = transform(call.name(), arguments);
    if (transform == null || !(column instanceof NotNullFilter named)) {
      return null;
    }
    FilterMessage found =
        translated(predicate.mapChildren(child -> child == call ? stand(call) : child));
    FilterMessage renamed = found == null ? null : renamed(found, named.column());
    return renamed == null ? null : new TransformFilter(transform, renamed);
  }

  private static String transform(String function, List<Expression> arguments) {
    if (arguments.size() == 1) {
      return TRANSFORMS.get(function);
    }
    return arguments.get(0) instanceof Literal width && width.value() instanceof Integer
        ? function + "[" + width.value() + "]"
        : null;
  }

  /** A column that stands for the call, so that Spark translates the predicate around it. */
  private static Expression stand(ApplyFunctionExpression call) {
    return new AttributeReference(
        "x",
        call.dataType(),
        true,
        Metadata.empty(),
        NamedExpression.newExprId(),
        CollectionConverters.asScala(List.<String>of()).toList());
  }

  private static FilterMessage renamed(FilterMessage predicate, String column) {
    if (predicate instanceof CompareFilter compare) {
      return new CompareFilter(compare.op(), column, compare.value());
    }
    if (predicate instanceof InFilter in) {
      return new InFilter(column, in.values());
    }
    if (predicate instanceof IsNullFilter) {
      return new IsNullFilter(column);
    }
    return predicate instanceof NotNullFilter ? new NotNullFilter(column) : null;
  }

  private RuntimeException refused(String part) {
    return PythonBridge.raised(
        PythonBridge.analysis(
            "cannot convert the part "
                + part
                + " of the filter "
                + text
                + ": Iceberg's metadata decide only comparisons of a column, or of a transform of"
                + " it such as system.bucket(16, id), with a value, and IN, LIKE 'a%', IS NULL,"
                + " BETWEEN, AND, OR and NOT of them"));
  }
}
