package sealberg.catalog;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A name of a statement, as Spark resolves it: a catalog of the session, and the rest of the name.
 *
 * <p>The analyzer resolves it: its CatalogManager is a class before Spark 4.2 and an interface
 * since then, so that a call of its methods links with one of the two only.
 */
public record CatalogName(CatalogPlugin catalog, Identifier rest) {

  public static CatalogName of(SparkSession session, List<String> parts) {
    var found =
        session
            .sessionState()
            .analyzer()
            .CatalogAndIdentifier()
            .unapply(CollectionConverters.asScala(parts).toSeq());
    return new CatalogName(found.get()._1(), found.get()._2());
  }

  /** The namespace of USE if it is of this catalog, or null. */
  public static String[] namespaceIn(SparkSession session, String catalog) {
    CatalogName single = of(session, List.of("any"));
    return single.catalog.name().equals(catalog) ? single.rest.namespace() : null;
  }
}
