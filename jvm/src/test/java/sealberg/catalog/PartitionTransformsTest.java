package sealberg.catalog;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Partition transforms agree with PyIceberg's, whose results are in transforms.json. */
class PartitionTransformsTest {
  @TestFactory
  List<DynamicTest> transforms() throws IOException {
    List<DynamicTest> tests = new ArrayList<>();
    try (InputStream vectors = getClass().getResourceAsStream("/transforms.json")) {
      for (JsonNode vector : new ObjectMapper().readTree(vectors)) {
        tests.add(DynamicTest.dynamicTest(vector.toString(), () -> check(vector)));
      }
    }
    return tests;
  }

  private static void check(JsonNode vector) {
    String transform = vector.get("transform").asText();
    DataType type = type(vector.get("type").asText());
    Object value = value(vector.get("value"), type);
    Object result = PartitionTransforms.apply(transform, vector.get("width").asInt(), type, value);
    JsonNode expected = vector.get("result");
    if (expected.isNull()) {
      assertNull(result);
    } else if (result instanceof byte[] bytes) {
      assertEquals(expected.asText(), HexFormat.of().formatHex(bytes));
    } else if (result instanceof Decimal decimal) {
      assertEquals(new BigDecimal(expected.asText()), decimal.toJavaBigDecimal());
    } else {
      assertEquals(expected.asText(), result.toString());
    }
  }

  private static DataType type(String name) {
    return switch (name) {
      case "int" -> DataTypes.IntegerType;
      case "long" -> DataTypes.LongType;
      case "date" -> DataTypes.DateType;
      case "timestamp" -> DataTypes.TimestampNTZType;
      case "string" -> DataTypes.StringType;
      case "binary" -> DataTypes.BinaryType;
      default -> DataType.fromDDL(name);
    };
  }

  private static Object value(JsonNode value, DataType type) {
    if (type.equals(DataTypes.IntegerType) || type.equals(DataTypes.DateType)) {
      return value.asInt();
    }
    if (type.equals(DataTypes.StringType)) {
      return UTF8String.fromString(value.asText());
    }
    if (type.equals(DataTypes.BinaryType)) {
      return HexFormat.of().parseHex(value.asText());
    }
    return type instanceof DecimalType decimal
        ? Decimal.apply(new BigDecimal(value.asText()), decimal.precision(), decimal.scale())
        : (Object) value.asLong();
  }

  @Test
  void aNullStaysNull() {
    for (String transform : List.of("identity", "bucket", "truncate", "days", "void")) {
      assertNull(PartitionTransforms.apply(transform, 4, DataTypes.DateType, null));
    }
  }

  /** As in Iceberg Java; Python's numbers have no smallest one. */
  @Test
  void truncationBelowTheSmallestNumberWrapsAround() {
    assertEquals(
        2147483646,
        PartitionTransforms.apply("truncate", 10, DataTypes.IntegerType, Integer.MIN_VALUE));
    assertEquals(
        9223372036854775806L,
        PartitionTransforms.apply("truncate", 10, DataTypes.LongType, Long.MIN_VALUE));
  }

  /** A row's memory is used again for the next row. */
  @Test
  void aTextIsCopiedOutOfItsRow() {
    UTF8String text = UTF8String.fromString("kept");
    Object copied = PartitionTransforms.apply("identity", 0, DataTypes.StringType, text);
    assertEquals(text, copied);
    assertNotSame(text, copied);
  }

  @Test
  void functionsOfTheCatalogAreTheSameTransforms() {
    StructType input = new StructType().add("width", "int").add("value", "long");
    UnboundFunction bucket = Functions.find("BUCKET");
    ScalarFunction<?> bound = (ScalarFunction<?>) bucket.bind(input);
    InternalRow row = new GenericInternalRow(new Object[] {16, 34L});
    assertEquals(
        PartitionTransforms.apply("bucket", 16, DataTypes.LongType, 34L), bound.produceResult(row));
    InternalRow zero = new GenericInternalRow(new Object[] {0, 34L});
    assertThrows(IllegalArgumentException.class, () -> bound.produceResult(zero));
    StructType real = new StructType().add("width", "int").add("value", "double");
    assertThrows(UnsupportedOperationException.class, () -> bucket.bind(real));
    assertThrows(UnsupportedOperationException.class, () -> Functions.find("days").bind(input));
    assertNull(Functions.find("no_transform"));
  }
}
