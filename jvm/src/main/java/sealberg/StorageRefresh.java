package sealberg;

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

/**
 * Credentials for a query that runs longer than those it began with: a task asks the driver, by Spark's own RPC.
 *
 * <pre>
 *   task: opens a file, credentials end soon ──Question──> driver ──"storage"──> Python ──> REST server
 *                                            <──Answer───        <─────────────        <── new credentials
 * </pre>
 *
 * Spark's RPC is protected as the keys of files are on their way to the tasks. Tasks ask before they open a file: who
 * is in the middle of one goes on with the credentials that the file was opened with.
 */
final class StorageRefresh implements IsolatedThreadSafeRpcEndpoint {
  private static final String NAME = "sealberg-storage";
  private static final int MOST = 64;
  private static RpcEnv served;

  /** The newest credentials that a task of this JVM was given, for the tasks after it. */
  private static final Map<List<String>, Storage> NEWEST = new LinkedHashMap<>() {
    @Override
    protected boolean removeEldestEntry(Map.Entry<List<String>, Storage> eldest) {
      return size() > MOST;
    }
  };

  private final RpcEnv env;

  private StorageRefresh(RpcEnv env) {
    this.env = env;
  }

  record Question(String catalog, String arguments) implements Serializable {}

  /** An answer of Python, or why there is none. */
  record Answer(String json, String error) implements Serializable {
    @Override
    public String toString() {
      return "storage settings";  // and not their values
    }
  }

  /** On the driver: from now on tasks are answered. */
  static synchronized void serve() {
    RpcEnv env = SparkEnv.get().rpcEnv();
    if (env != served) {
      env.setupEndpoint(NAME, new StorageRefresh(env));
      served = env;
    }
  }

  /** In a task: the same storage, with credentials that live longer. */
  static Storage ask(Storage old, Configuration conf) throws IOException {
    SparkEnv env = SparkEnv.get();
    List<String> key = List.of(env.conf().getAppId(), old.catalog(), old.question());
    synchronized (NEWEST) {  // one task asks, the others wait for its answer
      Storage newest = NEWEST.get(key);
      if (newest == null || newest.isAged()) {
        newest = asked(old, env, conf);
        NEWEST.remove(key);
        NEWEST.put(key, newest);
      }
      return newest;
    }
  }

  private static Storage asked(Storage old, SparkEnv env, Configuration conf) throws IOException {
    Answer answer;
    try {
      answer = RpcUtils.makeDriverRef(NAME, env.conf(), env.rpcEnv())
          .askSync(new Question(old.catalog(), old.question()), ClassTag$.MODULE$.apply(Answer.class));
    } catch (RuntimeException error) {
      throw new IOException("the driver did not answer when asked for new credentials of a storage", error);
    }
    if (answer.error() != null) {
      throw new IOException("new credentials of a storage could not be obtained: " + answer.error());
    }
    return Storage.of(old.catalog(), old.question(), Bridge.parsed(answer.json()), conf);
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
      var arguments = (com.fasterxml.jackson.databind.node.ObjectNode) Bridge.parsed(question.arguments());
      return new Answer(Bridge.call(question.catalog(), "storage", arguments).toString(), null);
    } catch (Exception error) {
      return new Answer(null, error.getMessage());
    }
  }
}
