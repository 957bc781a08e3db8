package sealberg.procedure;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import sealberg.bridge.ProcedureMessages.CallProcedure;
import sealberg.bridge.ProcedureMessages.CancelProcedure;
import sealberg.bridge.ProcedureMessages.ContinueProcedure;
import sealberg.bridge.ProcedureMessages.ContinueWithFilter;
import sealberg.bridge.ProcedureMessages.ProcedureDescription;
import sealberg.bridge.ProcedureMessages.ProcedureFilter;
import sealberg.bridge.ProcedureMessages.ProcedureRows;
import sealberg.bridge.ProcedureMessages.ProcedureStep;
import sealberg.bridge.ProcedureMessages.ProcedureTasks;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.Request;
import sealberg.bridge.SessionSettings;
import sealberg.catalog.CatalogName;
import sealberg.catalog.JsonRows;
import sealberg.worker.TaskJob;

/**
 * A procedure of Python, as Spark calls it.
 *
 * <pre>
 *   call(arguments) ──> Python ── ProcedureTasks ──> tasks of this session ── results ──> Python ── ...
 *                              ├─ ProcedureFilter ──> resolved against a table ──> Python ── ...
 *                              └─ ProcedureRows ──> the result
 * </pre>
 */
final class EncryptedProcedure implements UnboundProcedure, BoundProcedure {
  private final TableCatalog catalog;
  private final ProcedureDescription procedure;
  private final String[] defaultNamespace;

  EncryptedProcedure(
      TableCatalog catalog, ProcedureDescription procedure, String[] defaultNamespace) {
    this.catalog = catalog;
    this.procedure = procedure;
    this.defaultNamespace = defaultNamespace;
  }

  @Override
  public String name() {
    return procedure.name();
  }

  @Override
  public String description() {
    return procedure.description();
  }

  /** No procedure has overloads. */
  @Override
  public BoundProcedure bind(StructType inputType) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return procedure.parameters().stream()
        .map(
            parameter -> {
              ProcedureParameter.Builder builder =
                  ProcedureParameter.in(parameter.name(), parameter.type())
                      .comment(parameter.comment());
              return (parameter.required() ? builder : builder.defaultValue("NULL")).build();
            })
        .toArray(ProcedureParameter[]::new);
  }

  /** Spark must not call a procedure more or less often than the statement says. */
  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    ProcedureStep step = PythonBridge.call(catalog.name(), request(input));
    while (!(step instanceof ProcedureRows)) {
      step = PythonBridge.call(catalog.name(), answer(step));
    }
    ProcedureRows rows = (ProcedureRows) step;
    return List.<Scan>of(JsonRows.scan(rows.schema(), rows.rows())).iterator();
  }

  private CallProcedure request(InternalRow input) {
    Map<String, JsonNode> arguments = new LinkedHashMap<>();
    for (int i = 0; i < procedure.parameters().size(); i++) {
      var parameter = procedure.parameters().get(i);
      arguments.put(parameter.name(), ArgumentJson.value(input, i, parameter.type()));
    }
    return new CallProcedure(
        procedure.name(),
        arguments,
        List.of(namespace()),
        SessionSettings.current(),
        SQLConf.get().caseSensitiveAnalysis());
  }

  /** The namespace of USE, if it is of this catalog. */
  private String[] namespace() {
    String[] current = CatalogName.namespaceIn(SparkSession.active(), catalog.name());
    return current == null ? defaultNamespace : current;
  }

  /** Does what the call needs next. If that fails, Python ends the call first. */
  private Request<ProcedureStep> answer(ProcedureStep step) {
    if (step instanceof ProcedureFilter filter) {
      return attempt(
          filter.call(),
          () ->
              new ContinueWithFilter(
                  filter.call(), ResolvedFilter.of(filter.text(), schema(filter.table()))),
          List::of);
    }
    ProcedureTasks tasks = (ProcedureTasks) step;
    TaskJob job = new TaskJob();
    return attempt(
        tasks.call(),
        () ->
            new ContinueProcedure(
                tasks.call(), job.run(tasks.description(), tasks.python(), tasks.tasks())),
        job::results);
  }

  /** Spark's errors and interrupts are checked exceptions that its methods do not declare. */
  private <A> A attempt(String call, Supplier<A> act, Supplier<List<byte[]>> finished) {
    try {
      return act.get();
    } catch (Throwable error) {
      try {
        PythonBridge.call(catalog.name(), new CancelProcedure(call, finished.get()));
      } catch (RuntimeException gone) { // Python has ended: the first error says more
        error.addSuppressed(gone);
      }
      if (error instanceof Error failure) {
        throw failure;
      }
      throw PythonBridge.raised((Exception) error);
    }
  }

  private StructType schema(List<String> table) {
    int last = table.size() - 1;
    Identifier name = Identifier.of(table.subList(0, last).toArray(String[]::new), table.get(last));
    try {
      return CatalogV2Util.v2ColumnsToStructType(catalog.loadTable(name).columns());
    } catch (NoSuchTableException error) {
      throw PythonBridge.raised(error);
    }
  }
}
