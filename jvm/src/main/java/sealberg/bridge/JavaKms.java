package sealberg.bridge;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.util.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import sealberg.bridge.CallMessages.Call;
import sealberg.bridge.KmsMessages.DescribeKms;
import sealberg.bridge.KmsMessages.KmsDescription;
import sealberg.bridge.KmsMessages.KmsJob;
import sealberg.bridge.KmsMessages.KmsOutcome;
import sealberg.bridge.KmsMessages.ServeKms;

/**
 * The KMS client of a catalog, where {@code encryption.kms-impl} names a class of Java.
 *
 * <pre>
 *   Python ── job ──>  a thread of this JVM  ── wrapKey, unwrapKey, generateKey ──>  the client
 * </pre>
 *
 * <p>The client is of Iceberg's interface, which comes with the application's jars and is called by
 * the names of its methods: this project compiles against nothing of Iceberg. The threads have
 * connections of their own, since a request that waits for a key holds one of the others.
 */
final class JavaKms {
  private static final String INTERFACE = "org.apache.iceberg.encryption.KeyManagementClient";
  private static final int THREADS = 2;
  private static final Logger LOG = LoggerFactory.getLogger(JavaKms.class);

  private final String impl;
  private final Object client;
  private final Class<?> api;

  private JavaKms(KmsDescription description) {
    this.impl = description.impl();
    try {
      Class<?> type = Class.forName(impl, true, Utils.getContextOrSparkClassLoader());
      this.api = api(type);
      this.client = type.getDeclaredConstructor().newInstance();
      api.getMethod("initialize", Map.class).invoke(client, description.properties());
    } catch (ReflectiveOperationException | LinkageError error) {
      throw failed("cannot be used (" + told(error) + ")");
    }
  }

  private Class<?> api(Class<?> type) {
    try {
      Class<?> found = Class.forName(INTERFACE, false, type.getClassLoader());
      if (found.isAssignableFrom(type)) {
        return found;
      }
    } catch (ClassNotFoundException noIceberg) {
      // Then the class is of another interface, if of any.
    }
    throw failed("does not implement " + INTERFACE);
  }

  private RuntimeException failed(String what) {
    return PythonBridge.raised(
        PythonBridge.analysis(
            "encryption.kms-impl="
                + impl
                + ": the class "
                + what
                + ". It comes from the jars of the application: spark.jars, --jars or --packages"));
  }

  /** Runs the client of a catalog for as long as its Python is there. */
  static void serve(String catalog, PythonBackend backend) {
    JavaKms kms = new JavaKms(PythonBridge.call(backend, catalog, new DescribeKms()));
    for (int number = 0; number < THREADS; number++) {
      Thread thread = new Thread(() -> kms.run(catalog, backend), "sealberg-kms-" + catalog);
      thread.setDaemon(true);
      thread.start();
    }
  }

  private void run(String catalog, PythonBackend backend) {
    try (PythonConnection connection = backend.connect()) {
      KmsOutcome outcome = null;
      while (true) {
        ServeKms request = new ServeKms(outcome);
        JsonNode answer =
            connection.call(
                new Call(catalog, request.verb(), MessageCodec.write(request), null), false);
        if (answer.has("error")) {
          LOG.warn("the KMS client {} of catalog {} is not asked any more", impl, catalog);
          return;
        }
        outcome = done(MessageCodec.read(answer.get("ok"), KmsJob.class));
      }
    } catch (IOException ended) {
      LOG.debug("Python ended the connection of the KMS client {}", impl);
    }
  }

  private KmsOutcome done(KmsJob job) {
    try {
      return switch (job.act()) {
        case NONE -> null;
        case WRAP -> new KmsOutcome(null, bytes(call("wrapKey", job)), null);
        case UNWRAP -> new KmsOutcome(bytes(call("unwrapKey", job)), null, null);
        case GENERATE -> generated(job);
      };
    } catch (ReflectiveOperationException | RuntimeException | LinkageError error) {
      return new KmsOutcome(null, null, told(error));
    }
  }

  private Object call(String method, KmsJob job) throws ReflectiveOperationException {
    return api.getMethod(method, ByteBuffer.class, String.class)
        .invoke(client, ByteBuffer.wrap(job.content()), job.masterKeyId());
  }

  private KmsOutcome generated(KmsJob job) throws ReflectiveOperationException {
    if (!(boolean) api.getMethod("supportsKeyGeneration").invoke(client)) {
      throw new UnsupportedOperationException();
    }
    Method generate = api.getMethod("generateKey", String.class);
    Object made = generate.invoke(client, job.masterKeyId());
    return new KmsOutcome(bytes(part(made, "key")), bytes(part(made, "wrappedKey")), null);
  }

  private static Object part(Object made, String name) throws ReflectiveOperationException {
    Method method = made.getClass().getMethod(name);
    method.setAccessible(true);
    return method.invoke(made);
  }

  private static byte[] bytes(Object found) {
    if (found == null) {
      return null;
    }
    ByteBuffer buffer = ((ByteBuffer) found).duplicate();
    byte[] content = new byte[buffer.remaining()];
    buffer.get(content);
    return content;
  }

  /** The class of the error and where the client threw it, without the message. */
  private String told(Throwable error) {
    Throwable thrown = error instanceof InvocationTargetException ? error.getCause() : error;
    String where =
        Arrays.stream(thrown.getStackTrace())
            .filter(frame -> frame.getClassName().startsWith(impl))
            .map(frame -> " at " + frame)
            .findFirst()
            .orElse("");
    return thrown.getClass().getName() + where;
  }
}
