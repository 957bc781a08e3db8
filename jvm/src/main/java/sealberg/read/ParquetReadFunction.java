package sealberg.read;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import scala.Function1;
import scala.collection.Iterator;
import sealberg.crypto.FooterKeyFactory;

/** One of Spark's reader functions. */
record ParquetReadFunction(Function1<PartitionedFile, Iterator<InternalRow>> function)
    implements Serializable {
  Iterator<?> open(FileSplit file) {
    PartitionedFile piece =
        new PartitionedFile(
            InternalRow.empty(),
            org.apache.spark.paths.SparkPath.fromPath(file.readPath()),
            file.start(),
            file.length(),
            new String[0],
            0L,
            file.fileLength(),
            scala.collection.immutable.Map$.MODULE$.<String, Object>empty());
    return FooterKeyFactory.with(file, () -> function.apply(piece));
  }
}
