package sealberg.read;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Values that executors keep from one query to the next: a configuration, and reader functions that
 * contain one.
 *
 * <pre>
 *   application, settings, schema, filters ...  ──>  the value that was made of them, and its broadcast
 * </pre>
 *
 * A configuration has a thousand settings. Sending it with every query would cost more than a small
 * query itself.
 */
final class BroadcastCache {
  private static final int MOST = 32;
  private static final Map<Object, Object> KEPT =
      new LinkedHashMap<>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Object, Object> eldest) {
          return size() > MOST;
        }
      };

  private BroadcastCache() {}

  /** Returns the same value for equal settings, as long as the application runs. */
  @SuppressWarnings("unchecked")
  static <T> T once(SparkContext context, Configuration conf, List<?> more, Supplier<T> make) {
    Object key = List.of(context.applicationId(), settings(conf), more);
    synchronized (KEPT) {
      return (T) KEPT.computeIfAbsent(key, unused -> make.get());
    }
  }

  static Broadcast<SerializableConfiguration> conf(SparkContext context, Configuration conf) {
    return once(
        context,
        conf,
        List.of(),
        () ->
            JavaSparkContext.fromSparkContext(context)
                .broadcast(new SerializableConfiguration(conf)));
  }

  private static Map<String, String> settings(Configuration conf) {
    Map<String, String> settings = new HashMap<>();
    conf.forEach(one -> settings.put(one.getKey(), one.getValue()));
    return settings;
  }
}
