package sealberg.sql;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedNamespace;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.CreateNamespace;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SetNamespaceLocation;
import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.execution.command.AlterTableAddPartitionCommand;
import org.apache.spark.sql.execution.command.CreateDatabaseCommand;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.command.DataWritingCommand;
import org.apache.spark.sql.execution.command.RunnableCommand;
import scala.Option;
import scala.Product;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * With {@code spark.sealberg.strict=true} at the start: statements that act as the server itself,
 * beyond tables, are refused.
 *
 * <pre>
 *   reflect, java_method             call any static method of the server's JVM: its environment has tokens
 *   text.`file:///...`, USING text   read any file that the server may read; INSERT ... DIRECTORY writes
 *   LOCATION, USING jdbc             give a table or database of Spark's own catalog files, or a server, of the user's choice
 *   ADD JAR, CREATE FUNCTION         run code in the server; TRANSFORM runs programs
 * </pre>
 *
 * <p>Plans are known by the names of their classes, which are Spark's own and change little. Of
 * Spark's commands those are listed that may run: a command that nobody has looked at is refused.
 */
final class StrictCheck extends AbstractFunction1<LogicalPlan, BoxedUnit> {
  private static final String SPARKS_OWN = "spark_catalog";

  private static final Set<String> EXPRESSIONS = Set.of("CallMethodViaReflection", "TryReflect");

  private static final Set<String> OTHERS =
      Set.of("ScriptTransformation", "InsertIntoDir", "StreamingRelation", "StreamingRelationV2");

  /** Commands of Spark's own catalog that reach only tables which are there already. */
  private static final Set<String> COMMANDS =
      Set.of(
          "AlterDatabasePropertiesCommand",
          "AlterTableAddColumnsCommand",
          "AlterTableChangeColumnCommand",
          "AlterTableChangeColumnCommentsCommand",
          "AlterTableDropPartitionCommand",
          "AlterTableRenameCommand",
          "AlterTableRenamePartitionCommand",
          "AlterTableSetPropertiesCommand",
          "AlterTableUnsetPropertiesCommand",
          "AlterViewAsCommand",
          "AlterViewSchemaBindingCommand",
          "AnalyzeColumnCommand",
          "AnalyzePartitionCommand",
          "AnalyzeTableCommand",
          "AnalyzeTablesCommand",
          "CreateSQLFunctionCommand",
          "CreateViewCommand",
          "DropDatabaseCommand",
          "DropFunctionCommand",
          "DropTableCommand",
          "DropTempViewCommand",
          "ExplainCommand",
          "InsertIntoHiveTable",
          "ListArchivesCommand",
          "ListFilesCommand",
          "ListJarsCommand",
          "RefreshFunctionCommand",
          "RefreshTableCommand",
          "RepairTableCommand",
          "ResetCommand",
          "SetCatalogCommand",
          "SetCommand",
          "SetNamespaceCollationCommand",
          "SetNamespaceCommand",
          "SetPathCommand",
          "StreamingExplainCommand",
          "TruncateTableCommand",
          "UnsetNamespacePropertiesCommand");

  /** Commands that make something, and may where the statement names no place for it. */
  private static final Set<String> CREATIONS =
      Set.of(
          "AlterTableAddPartitionCommand",
          "CreateDatabaseCommand",
          "CreateDataSourceTableAsSelectCommand",
          "CreateDataSourceTableCommand",
          "CreateHiveTableAsSelectCommand",
          "CreateNamespace",
          "CreateTable",
          "CreateTableAsSelect",
          "CreateTableCommand",
          "CreateTableLikeCommand",
          "CreateTableV1",
          "OptimizedCreateHiveTableAsSelectCommand",
          "ReplaceTable",
          "ReplaceTableAsSelect",
          "SetNamespaceLocation");

  /** Formats whose tables are files in the folder that Spark chooses. */
  private static final Set<String> FORMATS =
      Set.of("parquet", "orc", "json", "csv", "text", "avro", "hive", "iceberg");

  /** What reads and writes tables, and the method that says of which catalog its table is. */
  private static final Map<String, String> RELATIONS =
      Map.of(
          "LogicalRelation", "catalogTable",
          "InsertIntoHadoopFsRelationCommand", "catalogTable",
          "DataSourceV2Relation", "catalog");

  @Override
  public BoxedUnit apply(LogicalPlan plan) {
    if (StrictSession.isOn()) {
      check(plan);
    }
    return BoxedUnit.UNIT;
  }

  private static void check(QueryPlan<?> plan) {
    String name = plan.getClass().getSimpleName();
    boolean refused =
        RELATIONS.containsKey(name)
            ? isOfNoCatalog(plan, RELATIONS.get(name))
            : CREATIONS.contains(name)
                ? namesPlace((Product) (Object) plan)
                : OTHERS.contains(name) || (isCommand(plan) && !isHarmless(name));
    if (refused) {
      refuse(name);
    }
    CollectionConverters.asJava(plan.expressions()).forEach(StrictCheck::check);
    CollectionConverters.asJava(plan.children()).forEach(each -> check((QueryPlan<?>) each));
    CollectionConverters.asJava(plan.innerChildren()).forEach(StrictCheck::check);
  }

  private static boolean isCommand(QueryPlan<?> plan) {
    return plan instanceof RunnableCommand || plan instanceof DataWritingCommand;
  }

  private static boolean isHarmless(String command) {
    return command.startsWith("Show")
        || command.startsWith("Describe")
        || COMMANDS.contains(command);
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

  /** Whether files, or a server, are named for what a command makes in Spark's own catalog. */
  private static boolean namesPlace(Product command) {
    boolean ofSpark = true;
    boolean found = false;
    for (Object part : parts(command)) {
      if (part instanceof ResolvedIdentifier name) {
        ofSpark = name.catalog().name().equals(SPARKS_OWN);
      } else if (part instanceof ResolvedNamespace name) {
        ofSpark = name.catalog().name().equals(SPARKS_OWN);
      }
      found |= isPlace(part);
    }
    if (command instanceof CreateDatabaseCommand database) {
      found = database.path().isDefined();
    } else if (command instanceof CreateNamespace namespace) {
      found = namespace.properties().contains(SupportsNamespaces.PROP_LOCATION);
    } else if (command instanceof SetNamespaceLocation) {
      found = true;
    } else if (command instanceof CreateTableLikeCommand table) {
      found |= !isOfFiles(table.provider());
    } else if (command instanceof AlterTableAddPartitionCommand partitions) {
      found =
          CollectionConverters.asJava(partitions.partitionSpecsAndLocs()).stream()
              .anyMatch(each -> each._2().isDefined());
    }
    return ofSpark && found;
  }

  private static List<Object> parts(Product of) {
    return IntStream.range(0, of.productArity()).mapToObj(of::productElement).toList();
  }

  private static boolean isPlace(Object part) {
    if (part instanceof CatalogTable table) {
      return isPlace(table.storage()) || !isOfFiles(table.provider());
    }
    if (part instanceof TableSpec spec) {
      return spec.location().isDefined()
          || !isOfFiles(spec.provider())
          || CollectionConverters.asJava(spec.options()).keySet().stream()
              .anyMatch("path"::equalsIgnoreCase);
    }
    return part instanceof CatalogStorageFormat storage && storage.locationUri().isDefined();
  }

  private static boolean isOfFiles(Option<String> provider) {
    return provider.isEmpty() || FORMATS.contains(provider.get().toLowerCase(Locale.ROOT));
  }

  private static boolean isOfNoCatalog(QueryPlan<?> plan, String method) {
    try {
      return ((Option<?>) plan.getClass().getMethod(method).invoke(plan)).isEmpty();
    } catch (ReflectiveOperationException error) {
      return true; // of a Spark that nobody has tried
    }
  }

  private static void refuse(String what) {
    throw StrictSession.refused(
        what + " is",
        "act as the server itself: read or write files by their paths, call methods or run"
            + " programs. Use tables of a catalog");
  }
}
