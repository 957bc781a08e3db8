package sealberg.bridge;

import java.util.List;
import java.util.Map;

/** SHOW, CREATE, ALTER, DESCRIBE and DROP NAMESPACE; SHOW TABLES. Python's {@code namespaces}. */
public final class NamespaceMessages {
  private NamespaceMessages() {}

  /** The answer has the last part of each name. */
  public record ListTables(List<String> namespace) implements Request.OfRead<List<String>> {}

  public record ListNamespaces(List<String> namespace)
      implements Request.OfRead<List<List<String>>> {}

  /** The answer has the properties of the namespace. */
  public record LoadNamespace(List<String> namespace)
      implements Request.OfRead<Map<String, String>> {}

  public record CreateNamespace(List<String> namespace, Map<String, String> properties)
      implements Request<Void> {}

  public record AlterNamespace(
      List<String> namespace, Map<String, String> updates, List<String> removals)
      implements Request<Void> {}

  /** The answer says whether there was such a namespace. */
  public record DropNamespace(List<String> namespace, boolean cascade)
      implements Request<Boolean> {}
}
