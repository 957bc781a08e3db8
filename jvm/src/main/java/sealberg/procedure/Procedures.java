package sealberg.procedure;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import sealberg.bridge.ProcedureMessages.ListProcedures;
import sealberg.bridge.ProcedureMessages.ProcedureDescription;
import sealberg.bridge.PythonBridge;

/** The procedures of a catalog: Python knows their names, parameters and what they do. */
public final class Procedures {
  private final TableCatalog catalog;
  private final Map<String, ProcedureDescription> known = new TreeMap<>();

  public Procedures(TableCatalog catalog) {
    this.catalog = catalog;
    List<ProcedureDescription> found = PythonBridge.call(catalog.name(), new ListProcedures());
    found.forEach(procedure -> known.put(procedure.name(), procedure));
  }

  public Identifier[] identifiers(String[] namespace) {
    return known.keySet().stream()
        .map(name -> Identifier.of(namespace, name))
        .toArray(Identifier[]::new);
  }

  /** The procedure of this name, whatever its case. */
  public UnboundProcedure load(Identifier procedure, boolean inSystem, String[] defaultNamespace) {
    ProcedureDescription found = known.get(procedure.name().toLowerCase(Locale.ROOT));
    if (!inSystem || found == null) {
      throw new IllegalArgumentException(
          "catalog "
              + catalog.name()
              + " has no procedure "
              + procedure
              + "; its procedures are in the namespace system: "
              + String.join(", ", known.keySet()));
    }
    return new EncryptedProcedure(catalog, found, defaultNamespace);
  }
}
