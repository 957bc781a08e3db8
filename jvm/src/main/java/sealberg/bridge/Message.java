package sealberg.bridge;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * What crosses between the JVM and Python: records, each with a class of the same name in Python's
 * {@code sealberg.spark.protocol}. {@link MessageCodec} reads and writes them.
 */
public interface Message {

  /** A component that may be null; the field is then left out of the JSON. */
  @Retention(RetentionPolicy.RUNTIME)
  @Target(ElementType.RECORD_COMPONENT)
  @interface Nullable {}

  /** A list of messages that is written as one array for each component. */
  @Retention(RetentionPolicy.RUNTIME)
  @Target(ElementType.RECORD_COMPONENT)
  @interface Columns {}

  /** The field "type" of a message that is one of several. */
  @Retention(RetentionPolicy.RUNTIME)
  @Target(ElementType.TYPE)
  @interface Tag {
    String value();
  }
}
