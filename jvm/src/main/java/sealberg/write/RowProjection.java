package sealberg.write;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Cast$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Projects the rows of a query to the columns of a table with write.spark.accept-any-schema.
 *
 * <p>{@code positions} has for each column of the table its position in a row of the query, or -1
 * if the query lacks the column. Python has checked the types.
 */
record RowProjection(StructType query, StructType table, int[] positions) implements Serializable {
  UnsafeProjection compiled() {
    List<Expression> columns = new ArrayList<>();
    for (int i = 0; i < positions.length; i++) {
      columns.add(column(table.fields()[i], positions[i]));
    }
    return UnsafeProjection.create(CollectionConverters.asScala(columns).toSeq());
  }

  private Expression column(StructField wanted, int position) {
    if (position < 0) {
      return Literal$.MODULE$.create(null, wanted.dataType());
    }
    StructField given = query.fields()[position];
    Expression value = new BoundReference(position, given.dataType(), true);
    if (!DataType.equalsIgnoreNullability(given.dataType(), wanted.dataType())) {
      value = Cast$.MODULE$.apply(value, wanted.dataType(), true);
    }
    List<String> path = List.of("column " + wanted.name() + " of the table is required");
    return wanted.nullable()
        ? value
        : new AssertNotNull(value, CollectionConverters.asScala(path).toSeq());
  }
}
