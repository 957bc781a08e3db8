package sealberg.sql;

import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;
import sealberg.bridge.PythonBridge;

/**
 * With {@code spark.sealberg.strict=true} at the start: statements that act as the server itself,
 * beyond tables, are refused.
 *
 * <pre>
 *   reflect, java_method             call any static method of the server's JVM: its environment has tokens
 *   text.`file:///...`, USING text   read any file that the server may read; INSERT ... DIRECTORY writes
 *   ADD JAR, CREATE FUNCTION         run code in the server; TRANSFORM runs programs
 * </pre>
 *
 * <p>Plans are known by the names of their classes, which are Spark's own and change little.
 */
final class StrictCheck extends AbstractFunction1<LogicalPlan, BoxedUnit> {
  private static final String STRICT = "spark.sealberg.strict";

  private static final Set<String> EXPRESSIONS = Set.of("CallMethodViaReflection", "TryReflect");

  private static final Set<String> COMMANDS =
      Set.of(
          "ScriptTransformation",
          "AddJarsCommand",
          "AddFilesCommand",
          "AddArchivesCommand",
          "CreateFunctionCommand",
          "CreateTempViewUsing",
          "InsertIntoDir",
          "InsertIntoDataSourceDirCommand",
          "InsertIntoHiveDirCommand",
          "SaveIntoDataSourceCommand",
          "LoadDataCommand",
          "AlterTableSetLocationCommand",
          "StreamingRelation",
          "StreamingRelationV2");

  private static final Set<String> CREATIONS =
      Set.of(
          "CreateDataSourceTableCommand",
          "CreateDataSourceTableAsSelectCommand",
          "CreateTableCommand",
          "CreateTable",
          "CreateTableV1",
          "CreateHiveTableAsSelectCommand");

  /** What reads and writes tables, and the method that says of which catalog its table is. */
  private static final Map<String, String> RELATIONS =
      Map.of(
          "LogicalRelation", "catalogTable",
          "InsertIntoHadoopFsRelationCommand", "catalogTable",
          "DataSourceV2Relation", "catalog");

  @Override
  public BoxedUnit apply(LogicalPlan plan) {
    if (SparkContext.getOrCreate().conf().get(STRICT, "false").strip().equalsIgnoreCase("true")) {
      check(plan);
    }
    return BoxedUnit.UNIT;
  }

  private static void check(QueryPlan<?> plan) {
    String name = plan.getClass().getSimpleName();
    if (COMMANDS.contains(name)
        || (CREATIONS.contains(name) && createsElsewhere(plan))
        || (RELATIONS.containsKey(name) && isOfNoCatalog(plan, RELATIONS.get(name)))) {
      refuse(name);
    }
    CollectionConverters.asJava(plan.expressions()).forEach(StrictCheck::check);
    CollectionConverters.asJava(plan.children()).forEach(each -> check((QueryPlan<?>) each));
    CollectionConverters.asJava(plan.innerChildren()).forEach(StrictCheck::check);
  }

  private static void check(Expression expression) {
    String name = expression.getClass().getSimpleName();
    if (EXPRESSIONS.contains(name)) {
      refuse(name);
    }
    if (expression instanceof SubqueryExpression subquery) {
      check(subquery.plan());
    }
    CollectionConverters.asJava(expression.children()).forEach(StrictCheck::check);
  }

  /** Whether a table of Spark's own catalog is made on files that the statement names. */
  private static boolean createsElsewhere(QueryPlan<?> plan) {
    Product parts = (Product) (Object) plan;
    for (int at = 0; at < parts.productArity(); at++) {
      if (parts.productElement(at) instanceof CatalogTable table) {
        Option<?> location = table.storage().locationUri();
        return location.isDefined();
      }
    }
    return false;
  }

  private static boolean isOfNoCatalog(QueryPlan<?> plan, String method) {
    try {
      return ((Option<?>) plan.getClass().getMethod(method).invoke(plan)).isEmpty();
    } catch (ReflectiveOperationException error) {
      return true; // of a Spark that nobody has tried
    }
  }

  private static void refuse(String what) {
    throw PythonBridge.<RuntimeException>raised(
        PythonBridge.analysis(
            STRICT
                + "=true: "
                + what
                + " is refused on this server. It would act as the server itself: read or write"
                + " files by their paths, call methods or run programs. Use tables of a catalog"));
  }
}
