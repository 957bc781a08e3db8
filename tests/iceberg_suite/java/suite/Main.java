package suite;

import static net.bytebuddy.matcher.ElementMatchers.declaresMethod;
import static net.bytebuddy.matcher.ElementMatchers.nameStartsWith;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.agent.builder.AgentBuilder.Identified.Extendable;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import net.bytebuddy.matcher.ElementMatcher;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.spark.SuiteSession;
import org.apache.spark.sql.SparkSession;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs test classes of Iceberg, or single tests, and writes one line of JSON for each test.
 *
 * <pre>java -Dsuite.results=FILE ... suite.Main CLASS | CLASS#METHOD ...</pre>
 *
 * A few methods are changed as their classes are loaded, so that the tests run on the catalog of
 * SuiteSession.
 */
public final class Main {
  private static final String PATIENCE = "240 s"; // of one test; it means "hangs"

  private Main() {}

  public static void main(String[] names) {
    change();
    List<DiscoverySelector> selected = new ArrayList<>();
    for (String name : names) {
      selected.add(name.contains("#") ? selectMethod(name) : selectClass(name));
    }
    LauncherFactory.create()
        .execute(
            LauncherDiscoveryRequestBuilder.request()
                .selectors(selected)
                .configurationParameter("junit.jupiter.execution.timeout.default", PATIENCE)
                .build(),
            new Recorder(Path.of(System.getProperty("suite.results"))));
    System.exit(0); // threads of Hive's stay
  }

  private static void change() {
    Agent agent = new Agent(new AgentBuilder.Default().disableClassFormatChanges());
    agent
        .in(nameStartsWith("org.apache.iceberg.hive.TestHiveMetastore"))
        .on(named("start").and(takesArguments(3)), StartMetastore.class);
    agent
        .in(
            nameStartsWith("org.apache.iceberg.spark.")
                .and(declaresMethod(named("startMetastoreAndSpark"))))
        .on(named("startMetastoreAndSpark"), Start.class)
        .on(named("stopMetastoreAndSpark"), Stop.class);
    agent
        .in(named("org.apache.iceberg.spark.Spark3Util"))
        .on(named("loadIcebergTable").and(takesArguments(2)), LoadTable.class)
        .on(named("loadIcebergCatalog").and(takesArguments(2)), LoadCatalog.class);
    agent
        .in(
            named("org.assertj.core.api.AbstractAssert")
                .or(named("org.assertj.core.api.AbstractThrowableAssert")))
        .on(
            named("isInstanceOf")
                .or(named("isExactlyInstanceOf"))
                .or(named("isEqualTo"))
                .or(nameStartsWith("hasMessage"))
                .or(nameStartsWith("hasCause"))
                .or(nameStartsWith("hasRootCause"))
                .or(nameStartsWith("hasStackTrace")),
            Lenient.class);
    agent
        .in(named("org.apache.spark.sql.classic.SparkSession"))
        .on(named("sql").and(takesArguments(String.class)), Statement.class);
    agent.install();
  }

  /** Collects the advice for each type. */
  private static final class Agent {
    private AgentBuilder builder;
    private ElementMatcher<? super TypeDescription> type;

    Agent(AgentBuilder builder) {
      this.builder = builder;
    }

    Agent in(ElementMatcher<? super TypeDescription> found) {
      type = found;
      return this;
    }

    Agent on(ElementMatcher<? super MethodDescription> method, Class<?> advice) {
      Extendable changed =
          builder
              .type(type)
              .transform(
                  (made, described, loader, module, domain) ->
                      made.visit(Advice.to(advice).on(method)));
      builder = changed;
      return this;
    }

    void install() {
      builder.installOn(ByteBuddyAgent.install());
    }
  }

  /** Direct SQL, which the commits of sealberg need, and fewer threads than Iceberg asks for. */
  public static final class StartMetastore {
    @Advice.OnMethodEnter
    static void enter(
        @Advice.Argument(value = 1, readOnly = false) int threads,
        @Advice.Argument(value = 2, readOnly = false) boolean directSql) {
      threads = 30;
      directSql = true;
    }
  }

  public static final class Start {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static boolean enter() {
      SuiteSession.start();
      return true;
    }
  }

  public static final class Stop {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static boolean enter() throws Exception {
      SuiteSession.stop();
      return true;
    }
  }

  /** Both refuse, in other words: noted, and the test goes on. */
  public static final class Lenient {
    @Advice.OnMethodExit(onThrowable = AssertionError.class)
    static void exit(
        @Advice.This Object self,
        @Advice.Origin("#m") String method,
        @Advice.AllArguments Object[] arguments,
        @Advice.Thrown(readOnly = false) Throwable thrown,
        @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object returned) {
      if (thrown != null && SuiteSession.isOtherWords(self, method, arguments)) {
        thrown = null;
        returned = self;
      }
    }
  }

  public static final class Statement {
    @Advice.OnMethodEnter
    static void enter(@Advice.Argument(value = 0, readOnly = false) String text) {
      text = SuiteSession.statement(text);
    }
  }

  public static final class LoadTable {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static Table enter(@Advice.Argument(0) SparkSession spark, @Advice.Argument(1) String name)
        throws Exception {
      return SuiteSession.table(spark, name);
    }

    @Advice.OnMethodExit
    static void exit(@Advice.Enter Table found, @Advice.Return(readOnly = false) Table returned) {
      if (found != null) {
        returned = found;
      }
    }
  }

  public static final class LoadCatalog {
    @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
    static Catalog enter(@Advice.Argument(1) String name) {
      return SuiteSession.catalog(name);
    }

    @Advice.OnMethodExit
    static void exit(
        @Advice.Enter Catalog found, @Advice.Return(readOnly = false) Catalog returned) {
      if (found != null) {
        returned = found;
      }
    }
  }
}
