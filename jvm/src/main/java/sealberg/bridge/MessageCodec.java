package sealberg.bridge;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A message as JSON and back, by the types of its components. Python's {@code codec} follows the
 * same rules.
 *
 * <pre>
 *   String boolean int long double   as in JSON             List      an array; with @Columns an object of arrays
 *   byte[]                           base64                 Map       an object with any names
 *   an enum                          copy-on-write          a record  an object with exactly its components
 *   StructType DataType              Spark's own JSON       a sealed interface   one of its records, told by "type"
 *   Object                           null, a boolean, a number, a string or {"decimal": "1.50"}
 *   JsonNode                         any JSON
 * </pre>
 *
 * A field that is unknown, missing or of another type is a ProtocolException that names the message
 * and the field. The exception never quotes a value: values may be keys.
 */
public final class MessageCodec {
  public static final ObjectMapper JSON = new ObjectMapper();
  private static final String TYPE = "type";
  private static final String DECIMAL = "decimal";

  private static final ClassValue<Form> FORMS =
      new ClassValue<>() {
        @Override
        protected Form computeValue(Class<?> type) {
          return Form.of(type);
        }
      };

  private MessageCodec() {}

  /** TableHandle and tableHandle as table-handle. */
  static String kebab(String name) {
    return name.replaceAll("(?<!^)(?=[A-Z])", "-").toLowerCase(Locale.ROOT);
  }

  static JsonNode parsed(byte[] text) {
    try {
      return JSON.readTree(text);
    } catch (IOException error) {
      throw new IllegalStateException(
          "not JSON"); // neither the text nor what the parser says: both may hold keys
    }
  }

  public static JsonNode parsed(String text) {
    try {
      return JSON.readTree(text);
    } catch (JsonProcessingException error) {
      throw new IllegalStateException("not JSON"); // as above
    }
  }

  // -- write
  // ----------------------------------------------------------------------------------------

  public static ObjectNode write(Message message) {
    Form form = FORMS.get(message.getClass());
    ObjectNode node = JSON.createObjectNode();
    if (form.tag != null) {
      node.put(TYPE, form.tag);
    }
    for (Field field : form.fields) {
      Object value = field.of(message);
      if (value != null || !field.nullable) {
        node.set(field.key, field.columns ? columns((List<?>) value, field) : written(value));
      }
    }
    return node;
  }

  private static JsonNode written(Object value) {
    if (value == null) {
      return JSON.nullNode();
    }
    if (value instanceof Message message) {
      return write(message);
    }
    if (value instanceof Enum<?> word) {
      return JSON.getNodeFactory().textNode(word(word));
    }
    if (value instanceof byte[] bytes) {
      return JSON.getNodeFactory().textNode(Base64.getEncoder().encodeToString(bytes));
    }
    if (value instanceof List<?> items) {
      ArrayNode array = JSON.createArrayNode();
      items.forEach(item -> array.add(written(item)));
      return array;
    }
    if (value instanceof Map<?, ?> entries) {
      ObjectNode object = JSON.createObjectNode();
      entries.forEach((name, item) -> object.set((String) name, written(item)));
      return object;
    }
    if (value instanceof DataType type) {
      return parsed(type.json());
    }
    if (value instanceof BigDecimal decimal) {
      return JSON.createObjectNode().put(DECIMAL, decimal.toPlainString());
    }
    return value instanceof JsonNode node ? node : JSON.valueToTree(value);
  }

  private static ObjectNode columns(List<?> messages, Field field) {
    ObjectNode node = JSON.createObjectNode();
    for (Field column : FORMS.get((Class<?>) element(field.type)).fields) {
      ArrayNode values = JSON.createArrayNode();
      boolean found = !column.nullable;
      for (Object message : messages) {
        Object value = column.of(message);
        found |= value != null;
        values.add(written(value));
      }
      if (found) {
        node.set(column.key, values);
      }
    }
    return node;
  }

  private static String word(Enum<?> word) {
    return word.name().toLowerCase(Locale.ROOT).replace('_', '-');
  }

  // -- read
  // -----------------------------------------------------------------------------------------

  public static <T extends Message> T read(JsonNode node, Class<T> type) {
    return type.cast(message(node, type));
  }

  /** A value of any type that a component can have. */
  static Object read(JsonNode node, Type type, String where) {
    if (type instanceof ParameterizedType generic) {
      return generic.getRawType() == List.class
          ? list(node, generic, where)
          : map(node, generic, where);
    }
    Class<?> kind = (Class<?>) type;
    if (kind == Void.class) {
      check(node.isNull(), where, "null", node);
      return null;
    }
    if (Message.class.isAssignableFrom(kind)) {
      return kind.isInterface() ? union(node, kind, where) : message(node, kind);
    }
    return kind.isEnum() ? word(node, kind, where) : plain(node, kind, where);
  }

  private static Object message(JsonNode node, Class<?> type) {
    String name = type.getSimpleName();
    check(node.isObject(), name, "an object", node);
    Form form = FORMS.get(type);
    if (form.tag != null && !form.tag.equals(node.path(TYPE).asText(null))) {
      throw new ProtocolException(name + "." + TYPE + " is not " + form.tag);
    }
    checkNames(form, node, form.tag != null);
    Object[] values = new Object[form.fields.length];
    for (int i = 0; i < values.length; i++) {
      Field field = form.fields[i];
      JsonNode value = node.get(field.key);
      values[i] = value == null ? null : form.read(field, value);
    }
    return form.create(values);
  }

  private static void checkNames(Form form, JsonNode node, boolean tagged) {
    for (Iterator<String> names = node.fieldNames(); names.hasNext(); ) {
      String key = names.next();
      if (!form.has(key) && !(tagged && key.equals(TYPE))) {
        throw new ProtocolException(
            form.name() + " has an unknown field " + key + "; known are " + form.keys());
      }
    }
    for (Field field : form.fields) {
      if (!field.nullable && !node.has(field.key)) {
        throw new ProtocolException(form.name() + " lacks the field " + field.key);
      }
    }
  }

  private static List<Object> columns(JsonNode node, Class<?> type, String where) {
    check(node.isObject(), where, "an object of arrays", node);
    Form form = FORMS.get(type);
    checkNames(form, node, false);
    int length = -1;
    for (JsonNode column : node) {
      check(column.isArray(), where, "an object of arrays", column);
      if (length >= 0 && length != column.size()) {
        throw new ProtocolException(where + " has columns of different lengths");
      }
      length = column.size();
    }
    JsonNode[] arrays = new JsonNode[form.fields.length];
    for (int i = 0; i < arrays.length; i++) {
      arrays[i] = node.get(form.fields[i].key);
    }
    List<Object> messages = new ArrayList<>(Math.max(length, 0));
    Object[] values = new Object[arrays.length];
    for (int row = 0; row < length; row++) {
      for (int i = 0; i < arrays.length; i++) {
        JsonNode value = arrays[i] == null ? null : arrays[i].get(row);
        boolean absent = value == null || value.isNull() && form.fields[i].nullable;
        values[i] = absent ? null : form.read(form.fields[i], value);
      }
      messages.add(form.create(values));
    }
    return Collections.unmodifiableList(messages);
  }

  private static List<Object> list(JsonNode node, ParameterizedType type, String where) {
    check(node.isArray(), where, "an array", node);
    List<Object> items = new ArrayList<>(node.size());
    for (JsonNode item : node) {
      items.add(read(item, element(type), where));
    }
    return Collections.unmodifiableList(items);
  }

  private static Map<String, Object> map(JsonNode node, ParameterizedType type, String where) {
    check(node.isObject(), where, "an object", node);
    Map<String, Object> items = new LinkedHashMap<>();
    Type value = type.getActualTypeArguments()[1];
    node.properties()
        .forEach(
            item ->
                items.put(
                    item.getKey(), read(item.getValue(), value, where + "." + item.getKey())));
    return Collections.unmodifiableMap(items);
  }

  private static Object union(JsonNode node, Class<?> type, String where) {
    List<String> tags = new ArrayList<>();
    for (Class<?> kind : type.getPermittedSubclasses()) {
      String tag = FORMS.get(kind).tag;
      if (tag.equals(node.path(TYPE).asText(null))) {
        return message(node, kind);
      }
      tags.add(tag);
    }
    throw new ProtocolException(where + " is none of the types " + String.join(", ", tags));
  }

  private static Object word(JsonNode node, Class<?> type, String where) {
    Object[] words = type.getEnumConstants();
    for (Object word : words) {
      if (node.isTextual() && word((Enum<?>) word).equals(node.asText())) {
        return word;
      }
    }
    String known =
        Arrays.stream(words).map(word -> word((Enum<?>) word)).collect(Collectors.joining(" or "));
    throw wrong(where, known, node);
  }

  private static Object plain(JsonNode node, Class<?> type, String where) {
    if (type == String.class) {
      check(node.isTextual(), where, "a string", node);
      return node.asText();
    }
    if (type == boolean.class || type == Boolean.class) {
      check(node.isBoolean(), where, "a boolean", node);
      return node.asBoolean();
    }
    if (type == int.class || type == Integer.class) {
      check(node.isIntegralNumber() && node.canConvertToInt(), where, "a whole number", node);
      return node.asInt();
    }
    if (type == long.class || type == Long.class) {
      check(node.isIntegralNumber() && node.canConvertToLong(), where, "a whole number", node);
      return node.asLong();
    }
    if (type == double.class) {
      check(node.isNumber(), where, "a number", node);
      return node.asDouble();
    }
    if (type == byte[].class) {
      return bytes(node, where);
    }
    if (DataType.class.isAssignableFrom(type)) {
      return dataType(node, type, where);
    }
    return type == JsonNode.class ? node : scalar(node, where);
  }

  private static byte[] bytes(JsonNode node, String where) {
    check(node.isTextual(), where, "base64", node);
    try {
      return Base64.getDecoder().decode(node.asText());
    } catch (IllegalArgumentException error) {
      throw new ProtocolException(where + " is not base64");
    }
  }

  private static DataType dataType(JsonNode node, Class<?> type, String where) {
    boolean isStruct = node.path(TYPE).asText("").equals("struct");
    check(
        type == StructType.class ? isStruct : node.isTextual() || node.isObject(),
        where,
        "a type of Spark",
        node);
    return DataType.fromJson(node.toString());
  }

  private static Object scalar(JsonNode node, String where) {
    if (node.isObject() && node.size() == 1 && node.path(DECIMAL).isTextual()) {
      return new BigDecimal(node.get(DECIMAL).asText());
    }
    check(node.isValueNode(), where, "null, a boolean, a number, a string or a decimal", node);
    if (node.isNull()) {
      return null;
    }
    if (node.isTextual()) {
      return node.asText();
    }
    return node.isBoolean() ? (Object) node.asBoolean() : node.numberValue();
  }

  private static Type element(Type list) {
    return ((ParameterizedType) list).getActualTypeArguments()[0];
  }

  private static void check(boolean fits, String where, String expected, JsonNode found) {
    if (!fits) {
      throw wrong(where, expected, found);
    }
  }

  private static ProtocolException wrong(String where, String expected, JsonNode found) {
    String kind = found.getNodeType().toString().toLowerCase(Locale.ROOT);
    return new ProtocolException(where + " is not " + expected + " but a JSON " + kind);
  }

  // -- a class of messages
  // --------------------------------------------------------------------------

  /** `where` names the field in exceptions. */
  private record Field(
      String key, String where, Type type, boolean nullable, boolean columns, Method accessor) {
    Object of(Object message) {
      try {
        return accessor.invoke(message);
      } catch (IllegalAccessException | InvocationTargetException error) {
        throw new IllegalStateException("internal error: " + accessor + " cannot be called", error);
      }
    }
  }

  private static final class Form {
    private final Class<?> type;
    private final Constructor<?> constructor;
    final Field[] fields;
    final String tag;

    private Form(Class<?> type, Constructor<?> constructor, Field[] fields, String tag) {
      this.type = type;
      this.constructor = constructor;
      this.fields = fields;
      this.tag = tag;
    }

    static Form of(Class<?> type) {
      RecordComponent[] components = type.getRecordComponents();
      Field[] fields = new Field[components.length];
      Class<?>[] kinds = new Class<?>[components.length];
      for (int i = 0; i < fields.length; i++) {
        RecordComponent component = components[i];
        kinds[i] = component.getType();
        fields[i] =
            new Field(
                kebab(component.getName()),
                type.getSimpleName() + "." + kebab(component.getName()),
                component.getGenericType(),
                component.isAnnotationPresent(Message.Nullable.class),
                component.isAnnotationPresent(Message.Columns.class),
                component.getAccessor());
      }
      Message.Tag tag = type.getAnnotation(Message.Tag.class);
      try {
        return new Form(
            type, type.getDeclaredConstructor(kinds), fields, tag == null ? null : tag.value());
      } catch (NoSuchMethodException error) {
        throw new IllegalStateException(
            "internal error: " + type + " has no canonical constructor", error);
      }
    }

    String name() {
      return type.getSimpleName();
    }

    String keys() {
      return Arrays.stream(fields).map(Field::key).collect(Collectors.joining(", "));
    }

    boolean has(String key) {
      for (Field field : fields) {
        if (field.key.equals(key)) {
          return true;
        }
      }
      return false;
    }

    Object read(Field field, JsonNode value) {
      return field.columns
          ? MessageCodec.columns(value, (Class<?>) element(field.type), field.where)
          : MessageCodec.read(value, field.type, field.where);
    }

    Object create(Object[] values) {
      try {
        return constructor.newInstance(values);
      } catch (InstantiationException | IllegalAccessException | InvocationTargetException error) {
        throw new IllegalStateException("internal error: a " + name() + " cannot be made", error);
      }
    }
  }
}
