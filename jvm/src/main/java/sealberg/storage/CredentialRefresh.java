package sealberg.storage;

import java.io.IOException;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.IsolatedThreadSafeRpcEndpoint;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.util.RpcUtils;
import scala.PartialFunction;
import scala.reflect.ClassTag$;
import scala.runtime.BoxedUnit;
import sealberg.bridge.PythonBridge;
import sealberg.bridge.StorageMessages.RefreshStorage;
import sealberg.bridge.StorageMessages.StorageSettings;
import sealberg.bridge.TableMessages.TableHandle;

/**
 * Credentials for a query that runs longer than those it began with: a task asks the driver, by
 * Spark's own RPC.
 *
 * <pre>
 *   task: opens a file, credentials end soon ──Question──> driver ──Refresh───> Python ──> REST server
 *                                            <──Answer───        <─────────────        <── new credentials
 * </pre>
 *
 * Spark's RPC is protected as the keys of files are on their way to the tasks. Tasks ask before
 * they open a file: who is in the middle of one goes on with the credentials that the file was
 * opened with.
 */
final class CredentialRefresh implements IsolatedThreadSafeRpcEndpoint {
  private static final String NAME = "sealberg-storage";
  private static final int MOST = 64;
  private static RpcEnv served;

  /** The newest credentials that a task of this JVM was given, for the tasks after it. */
  private static final Map<List<Object>, TableStorage> NEWEST =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<List<Object>, TableStorage> eldest) {
          return size() > MOST;
        }
      };

  private final RpcEnv env;

  private CredentialRefresh(RpcEnv env) {
    this.env = env;
  }

  record Question(String catalog, TableHandle handle) implements Serializable {}

  /** An answer of Python, or why there is none. */
  record Answer(StorageSettings settings, String error) implements Serializable {
    @Override
    public String toString() {
      return "storage settings"; // and not their values
    }
  }

  /** On the driver: from now on tasks are answered. */
  static synchronized void serve() {
    RpcEnv env = SparkEnv.get().rpcEnv();
    if (env != served) {
      env.setupEndpoint(NAME, new CredentialRefresh(env));
      served = env;
    }
  }

  /** In a task: the same storage, with credentials that live longer. */
  static TableStorage ask(TableStorage old, Configuration conf) throws IOException {
    SparkEnv env = SparkEnv.get();
    List<Object> key = List.of(env.conf().getAppId(), old.catalog(), old.handle());
    synchronized (NEWEST) { // one task asks, the others wait for its answer
      TableStorage newest = NEWEST.get(key);
      if (newest == null || newest.isAged()) {
        newest = asked(old, env, conf);
        NEWEST.remove(key);
        NEWEST.put(key, newest);
      }
      return newest;
    }
  }

  private static TableStorage asked(TableStorage old, SparkEnv env, Configuration conf)
      throws IOException {
    Answer answer;
    try {
      answer =
          RpcUtils.makeDriverRef(NAME, env.conf(), env.rpcEnv())
              .askSync(
                  new Question(old.catalog(), old.handle()), ClassTag$.MODULE$.apply(Answer.class));
    } catch (RuntimeException error) {
      throw new IOException(
          "the driver did not answer when asked for new credentials of a storage", error);
    }
    if (answer.error() != null) {
      throw new IOException(
          "new credentials of a storage could not be obtained: " + answer.error());
    }
    return TableStorage.of(old.catalog(), old.handle(), answer.settings(), conf);
  }

  @Override
  public RpcEnv rpcEnv() {
    return env;
  }

  @Override
  public PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
    return new scala.runtime.AbstractPartialFunction<>() {
      @Override
      public boolean isDefinedAt(Object message) {
        return message instanceof Question;
      }

      @Override
      public BoxedUnit apply(Object message) {
        context.reply(answered((Question) message));
        return BoxedUnit.UNIT;
      }
    };
  }

  private static Answer answered(Question question) {
    try {
      return new Answer(
          PythonBridge.call(question.catalog(), new RefreshStorage(question.handle())), null);
    } catch (Exception error) {
      return new Answer(null, error.getMessage());
    }
  }
}
