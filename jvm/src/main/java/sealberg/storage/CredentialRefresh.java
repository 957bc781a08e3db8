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
 * New credentials for a query that runs longer than its first credentials: a task asks the driver
 * by Spark's RPC.
 *
 * <pre>
 *   task: opens a file, credentials expire soon ──Question──> driver ──Refresh───> Python ──> REST server
 *                                            <──Answer───        <─────────────        <── new credentials
 * </pre>
 *
 * Spark's RPC has the same protection as the keys of files on their way to the tasks. A task asks
 * before it opens a file; a file that is already open keeps its credentials.
 */
final class CredentialRefresh implements IsolatedThreadSafeRpcEndpoint {
  private static final String NAME = "sealberg-storage";
  private static final int MOST = 64;
  private static RpcEnv served;

  /** The newest credentials that a task of this JVM has received, for the next tasks. */
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

  /** The settings that Python returned, or an error message. */
  record Answer(StorageSettings settings, String error) implements Serializable {
    @Override
    public String toString() {
      return "storage settings"; // never their values
    }
  }

  /** On the driver: registers the RPC endpoint that answers tasks. */
  static synchronized void serve() {
    RpcEnv env = SparkEnv.get().rpcEnv();
    if (env != served) {
      env.setupEndpoint(NAME, new CredentialRefresh(env));
      served = env;
    }
  }

  /** In a task: the same storage with new credentials. */
  static TableStorage ask(TableStorage old, Configuration conf) throws IOException {
    SparkEnv env = SparkEnv.get();
    List<Object> key = List.of(env.conf().getAppId(), old.catalog(), old.handle());
    synchronized (NEWEST) { // one task asks, and the others wait for the answer
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
          "could not renew the storage credentials of catalog "
              + old.catalog()
              + ": the driver did not respond",
          error);
    }
    if (answer.error() != null) {
      throw new IOException(
          "could not renew the storage credentials of catalog "
              + old.catalog()
              + ": "
              + answer.error());
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
