package sealberg.catalog;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A name of a statement, as Spark resolves it: a catalog of the session, and the rest of the name.
 *
 * <p>The analyzer resolves it: its CatalogManager is a class before Spark 4.2 and an interface
 * since then, so that a call of its methods links with one of the two only.
 */
public record CatalogName(CatalogPlugin catalog, Identifier rest) {
  private static final String PATH = "path";

  /** An option that chooses a snapshot, and how the name of a table says the same. */
  private static final Map<String, String> PARTS =
      Map.of(
          "branch", "branch_",
          "tag", "tag_",
          "snapshot-id", "snapshot_id_",
          "as-of-timestamp", "at_timestamp_");

  public static CatalogName of(SparkSession session, List<String> parts) {
    var found =
        session
            .sessionState()
            .analyzer()
            .CatalogAndIdentifier()
            .unapply(CollectionConverters.asScala(parts).toSeq());
    return new CatalogName(found.get()._1(), found.get()._2());
  }

  /** Null for a text that is no name, such as a path. */
  public static CatalogName parsed(SparkSession session, String text) {
    try {
      return text == null
          ? null
          : of(
              session,
              CollectionConverters.asJava(
                  session.sessionState().sqlParser().parseMultipartIdentifier(text)));
    } catch (ParseException notAName) {
      return null;
    }
  }

  /**
   * The options without {@code path} if it is the name of this table: load and save of format
   * iceberg name the table by it. Another path is left to Python, which refuses it.
   *
   * <p>Where Iceberg's own connector is in the session, its format iceberg turns the option {@code
   * branch} into the name {@code table.branch_b}, and leaves path and branch among the options.
   */
  static CaseInsensitiveStringMap withoutName(
      CaseInsensitiveStringMap options, String catalog, Predicate<String> isTable) {
    CatalogName named = parsed(SparkSession.active(), options.get(PATH));
    if (named == null || !named.catalog.name().equals(catalog)) {
      return options;
    }
    String name = named.dotted();
    Optional<String> inName =
        PARTS.keySet().stream()
            .filter(options::containsKey)
            .filter(option -> isTable.test(name + "." + PARTS.get(option) + options.get(option)))
            .findFirst();
    if (inName.isEmpty() && !isTable.test(name)) {
      return options;
    }
    Map<String, String> others = new LinkedHashMap<>(options.asCaseSensitiveMap());
    others.keySet().removeIf(PATH::equalsIgnoreCase);
    inName.ifPresent(option -> others.keySet().removeIf(option::equalsIgnoreCase));
    return new CaseInsensitiveStringMap(others);
  }

  private String dotted() {
    String namespace = String.join(".", rest.namespace());
    return namespace.isEmpty() ? rest.name() : namespace + "." + rest.name();
  }

  /** The namespace of USE if it is of this catalog, or null. */
  public static String[] namespaceIn(SparkSession session, String catalog) {
    CatalogName single = of(session, List.of("any"));
    return single.catalog.name().equals(catalog) ? single.rest.namespace() : null;
  }
}
