package sealberg.bridge;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.List;

/**
 * A message that asks Python for something; {@code A} is the type of the answer.
 *
 * <p>The name of the record is the verb: {@code LoadTable} is "load-table". What the request is
 * about tells which exception of Spark a failure becomes.
 */
public interface Request<A> extends Message {

  /** A request that changes nothing: a query that is cancelled need not wait for the answer. */
  interface OfRead<A> extends Request<A> {}

  /** The table that the request is about; empty for a request about a namespace. */
  default List<String> table() {
    return List.of();
  }

  /** The table that must not exist before the request. */
  default List<String> newTable() {
    return table();
  }

  /** The namespace that the request is about. */
  default List<String> namespace() {
    List<String> table = table();
    return table.isEmpty() ? table : table.subList(0, table.size() - 1);
  }

  default String verb() {
    return MessageCodec.kebab(getClass().getSimpleName());
  }

  /** The type of the answer. */
  default Type answer() {
    for (Type implemented : getClass().getGenericInterfaces()) {
      if (implemented instanceof ParameterizedType type
          && (type.getRawType() == Request.class || type.getRawType() == OfRead.class)) {
        return type.getActualTypeArguments()[0];
      }
    }
    throw new IllegalStateException(
        "internal error: " + getClass().getSimpleName() + " does not say what it asks for");
  }
}
