package sealberg.sql;

import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import sealberg.catalog.EncryptedTable;

/**
 * Refuses UPDATE and MERGE of a table that accepts any schema, by the name of the property.
 *
 * <p>Spark does not resolve the columns of such a statement, and would say that it cannot find
 * them.
 */
final class AnySchemaCheck extends Rule<LogicalPlan> {
  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    if (plan instanceof UpdateTable update) {
      check(update.table(), "UPDATE");
    } else if (plan instanceof MergeIntoTable merge) {
      check(merge.targetTable(), "MERGE");
    }
    return plan;
  }

  private static void check(LogicalPlan target, String statement) {
    LogicalPlan bare = EliminateSubqueryAliases.apply(target);
    if (bare instanceof DataSourceV2Relation relation
        && relation.table() instanceof EncryptedTable table
        && table.description().acceptsAnySchema()) {
      throw new UnsupportedOperationException(
          statement
              + " is not supported for "
              + table.name()
              + ", because write.spark.accept-any-schema is true: Spark does not resolve its"
              + " columns. First ALTER TABLE ... UNSET TBLPROPERTIES"
              + " ('write.spark.accept-any-schema')");
    }
  }
}
