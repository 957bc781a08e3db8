package sealberg.sql;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.SparkSessionExtensionsProvider;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.connector.catalog.Identifier;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;
import sealberg.catalog.CatalogName;
import sealberg.catalog.EncryptedCatalog;

/**
 * Iceberg's DDL for the tables of this project, in every session that has the jar.
 *
 * <pre>
 *   statement ──> StatementParser ── DDL of a table of an EncryptedCatalog ──> CALL of a procedure
 *                                 └─ anything else, or of another catalog  ──> the next parser, untouched
 * </pre>
 *
 * Spark finds the class by META-INF/services, so no setting is needed, and none of the user's
 * spark.sql.extensions is replaced. Spark's ParserInterface grows from release to release, so the
 * parser is a proxy that answers the methods which take a statement and hands on all others. The
 * proxy has every interface of the next parser: Iceberg's procedures look for their own parser in
 * the session, to parse the order of rewrite_data_files. Where Iceberg's own extension has parsed a
 * statement first, {@link IcebergPlans} turns its plan into the same call.
 */
public final class SqlExtensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit>
    implements SparkSessionExtensionsProvider {

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(SqlExtensions::parser);
    extensions.injectResolutionRule(IcebergPlans::new);
    extensions.injectCheckRule(session -> new StrictCheck());
    extensions.injectResolutionRule(session -> new AnySchemaCheck());
    return BoxedUnit.UNIT;
  }

  private static ParserInterface parser(SparkSession session, ParserInterface next) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            next.getClass().getClassLoader(),
            interfaces(next),
            (proxy, method, arguments) -> {
              boolean takesStatement = method.getName().startsWith("parsePlan");
              try {
                StrictSession.checkText(arguments);
                Object parsed =
                    invoke(
                        method, next, takesStatement ? rewritten(session, arguments) : arguments);
                StrictSession.check(session, parsed);
                return parsed;
              } catch (AnalysisException error) {
                throw declared(method, arguments, error);
              }
            });
  }

  static Class<?>[] interfaces(ParserInterface next) {
    Set<Class<?>> found = new LinkedHashSet<>(List.of(ParserInterface.class));
    for (Class<?> of = next.getClass(); of != null; of = of.getSuperclass()) {
      Stream.of(of.getInterfaces())
          .filter(one -> Modifier.isPublic(one.getModifiers()))
          .forEach(found::add);
    }
    return found.toArray(Class<?>[]::new);
  }

  private static Object invoke(Method method, ParserInterface next, Object[] arguments)
      throws Throwable {
    try {
      return method.invoke(next, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
  }

  /**
   * The error, or a ParseException in its place if the method does not declare it: Iceberg's
   * IcebergParseException is an AnalysisException, and a proxy would throw it as an
   * UndeclaredThrowableException.
   */
  private static Throwable declared(Method method, Object[] arguments, Throwable error) {
    boolean fits =
        !(error instanceof AnalysisException)
            || Stream.of(method.getExceptionTypes()).anyMatch(one -> one.isInstance(error));
    if (fits) {
      return error;
    }
    AnalysisException refused = (AnalysisException) error;
    Tokens tokens = new Tokens((String) arguments[0]);
    ParseException replaced =
        refused.line().isEmpty()
            ? tokens.notAllowed(refused.message())
            : tokens.errorAt(
                (int) refused.line().get(),
                refused.startPosition().isEmpty() ? 0 : (int) refused.startPosition().get(),
                refused.message());
    replaced.addSuppressed(error);
    return replaced;
  }

  private static Object[] rewritten(SparkSession session, Object[] arguments) {
    TableStatement statement = StatementParser.parse((String) arguments[0]);
    String call = statement == null ? null : callOf(session, statement);
    if (call == null) {
      return arguments;
    }
    Object[] replaced = arguments.clone();
    replaced[0] = call;
    return replaced;
  }

  /** The call of the procedure, or null if the table is of another catalog. */
  static String callOf(SparkSession session, TableStatement statement) {
    CatalogName name = CatalogName.of(session, statement.table());
    if (!(name.catalog() instanceof EncryptedCatalog catalog) || !catalog.answersFor(name.rest())) {
      return null;
    }
    Identifier known = catalog.spelled(name.rest());
    List<String> table = new ArrayList<>(List.of(known.namespace()));
    table.add(known.name());
    return statement.call(name.catalog().name(), table);
  }
}
