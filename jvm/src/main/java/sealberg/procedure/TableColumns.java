package sealberg.procedure;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.LeafNode;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A relation with the columns of a table and nothing to read, so that Spark's optimizer has nowhere
 * to push a filter and leaves it in the plan.
 */
final class TableColumns extends LogicalPlan implements LeafNode {
  private static final long serialVersionUID = 1L;

  private final transient Seq<Attribute> output;

  TableColumns(StructType schema) {
    List<Attribute> columns =
        List.copyOf(CollectionConverters.asJava(DataTypeUtils.toAttributes(schema)));
    this.output = CollectionConverters.asScala(columns).toList();
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public AttributeSet producedAttributes() {
    return outputSet();
  }

  /** Of no use to a filter, and asked for by rules that every plan runs through. */
  @Override
  public Statistics computeStats() {
    return LeafNode.super.computeStats();
  }

  @Override
  public Seq<LogicalPlan> children() {
    return LeafNode.super.children();
  }

  @Override
  public LogicalPlan mapChildren(Function1<LogicalPlan, LogicalPlan> change) {
    return this;
  }

  @Override
  public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> none) {
    return this;
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int at) {
    throw new IndexOutOfBoundsException(at);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof TableColumns;
  }
}
