package sealberg.write;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.crypto.FileEncryptionProperties;
import org.apache.parquet.hadoop.ParquetWriter;
import org.apache.parquet.hadoop.api.WriteSupport;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;
import org.apache.parquet.io.OutputFile;
import org.apache.parquet.io.api.Binary;
import org.apache.parquet.io.api.RecordConsumer;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.parquet.schema.Types;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.parquet.ParquetWriteSupport;
import sealberg.bridge.WriteMessages.ParquetOptions;
import sealberg.crypto.AesGcmWarmup;

/** Writes a Parquet file with Spark's own writer, with the field ids and types of Iceberg. */
final class ParquetFileWriter implements DataFileWriter {
  private static final Map<String, String> ZLIB =
      Map.of(
          "0",
          "NO_COMPRESSION",
          "1",
          "BEST_SPEED",
          "2",
          "TWO",
          "3",
          "THREE",
          "4",
          "FOUR",
          "5",
          "FIVE",
          "6",
          "SIX",
          "7",
          "SEVEN",
          "8",
          "EIGHT",
          "9",
          "BEST_COMPRESSION");
  private final ParquetWriter<InternalRow> writer;

  /** `kinds` has the length of fixed columns by path, and -1 for UUID columns. */
  ParquetFileWriter(
      OutputFile output,
      Configuration conf,
      FileEncryptionProperties keys,
      Map<String, Integer> ids,
      Map<String, Integer> kinds,
      ParquetOptions options)
      throws IOException {
    AesGcmWarmup.begin();
    Builder builder =
        new Builder(output, ids, kinds)
            .withConf(levelled(conf, options.level()))
            .withEncryption(keys)
            .withWriteMode(org.apache.parquet.hadoop.ParquetFileWriter.Mode.CREATE)
            .withCompressionCodec(CompressionCodecName.fromConf(options.codec()))
            .withRowGroupSize(options.rowGroupBytes())
            .withPageSize(options.pageBytes())
            .withDictionaryPageSize(options.dictionaryBytes())
            .withPageRowCountLimit(options.pageRows());
    withBloomFilters(builder, options);
    writer = builder.build();
  }

  private static void withBloomFilters(Builder builder, ParquetOptions options) {
    if (options.bloomFilters().isEmpty()) {
      return;
    }
    builder
        .withMaxBloomFilterBytes(options.bloomMaxBytes())
        .withAdaptiveBloomFilterEnabled(options.bloomAdaptive());
    options
        .bloomFilters()
        .forEach(
            (path, filter) -> {
              builder.withBloomFilterEnabled(path, true).withBloomFilterFPP(path, filter.fpp());
              if (filter.ndv() != null) {
                builder.withBloomFilterNDV(path, filter.ndv());
              }
            });
  }

  /** Each codec reads its level from the configuration, under its own name. */
  private static Configuration levelled(Configuration conf, Integer given) {
    if (given == null) {
      return conf;
    }
    String level = given.toString();
    Configuration own = new Configuration(conf);
    own.set("parquet.compression.codec.zstd.level", level);
    own.set("zlib.compress.level", ZLIB.getOrDefault(level, level));
    own.set("compression.brotli.quality", level);
    return own;
  }

  @Override
  public void write(InternalRow row) throws IOException {
    writer.write(row);
  }

  @Override
  public long getDataSize() {
    return writer.getDataSize();
  }

  @Override
  public void close() throws IOException {
    writer.close();
  }

  private static final class Builder extends ParquetWriter.Builder<InternalRow, Builder> {
    private final Map<String, Integer> ids;
    private final Map<String, Integer> kinds;

    Builder(OutputFile file, Map<String, Integer> ids, Map<String, Integer> kinds) {
      super(file);
      this.ids = ids;
      this.kinds = kinds;
    }

    @Override
    protected Builder self() {
      return this;
    }

    @Override
    @SuppressWarnings("deprecation") // abstract in Parquet, so it must be overridden
    protected WriteSupport<InternalRow> getWriteSupport(Configuration conf) {
      return new Support(ids, kinds);
    }
  }

  /**
   * Spark's write support with Iceberg's field ids on every level: Spark cannot set the ids of
   * elements, keys and values.
   */
  private static final class Support extends ParquetWriteSupport {
    private final Map<String, Integer> ids;
    private final Map<String, Integer> kinds;
    private MessageType schema;

    Support(Map<String, Integer> ids, Map<String, Integer> kinds) {
      this.ids = ids;
      this.kinds = kinds;
    }

    @Override
    public WriteContext init(Configuration conf) {
      WriteContext made = super.init(conf);
      List<Type> fields = new ArrayList<>();
      for (Type field : made.getSchema().getFields()) {
        fields.add(withIds(field, field.getName()));
      }
      schema = new MessageType(made.getSchema().getName(), fields);
      return new WriteContext(schema, made.getExtraMetaData());
    }

    @Override
    public void prepareForWrite(RecordConsumer consumer) {
      super.prepareForWrite(kinds.isEmpty() ? consumer : new Fixed(consumer, schema));
    }

    private Type withIds(Type type, String path) {
      Type made = kinds.containsKey(path) ? fixed(type, kinds.get(path)) : type;
      if (!type.isPrimitive()) {
        List<Type> children = new ArrayList<>();
        for (Type child : type.asGroupType().getFields()) {
          children.add(withIds(child, path + "." + child.getName()));
        }
        made = type.asGroupType().withNewFields(children);
      }
      return ids.containsKey(path) ? made.withId(ids.get(path)) : made;
    }
  }

  private static Type fixed(Type type, int length) {
    var made = Types.primitive(PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY, type.getRepetition());
    return length < 0
        ? made.length(16).as(LogicalTypeAnnotation.uuidType()).named(type.getName())
        : made.length(length).named(type.getName());
  }

  /**
   * Converts Spark's values to the column's type: UUIDs from text, and fixed bytes after a check of
   * their length.
   */
  private static final class Fixed extends RecordConsumer {
    private final RecordConsumer out;
    private final Deque<Type> inside = new ArrayDeque<>();

    Fixed(RecordConsumer out, MessageType schema) {
      this.out = out;
      inside.push(schema);
    }

    @Override
    public void addBinary(Binary value) {
      LogicalTypeAnnotation kind = inside.peek().getLogicalTypeAnnotation();
      if (kind instanceof LogicalTypeAnnotation.UUIDLogicalTypeAnnotation) {
        out.addBinary(
            Binary.fromConstantByteArray(uuid(value.toStringUsingUTF8(), inside.peek().getName())));
        return;
      }
      boolean isFixed =
          inside.peek().asPrimitiveType().getPrimitiveTypeName()
              == PrimitiveTypeName.FIXED_LEN_BYTE_ARRAY;
      if (isFixed && value.length() != inside.peek().asPrimitiveType().getTypeLength()) {
        throw new IllegalArgumentException(
            "column "
                + inside.peek().getName()
                + ": found "
                + value.length()
                + " bytes, expected fixed["
                + inside.peek().asPrimitiveType().getTypeLength()
                + "]");
      }
      out.addBinary(value);
    }

    @Override
    public void startField(String field, int index) {
      inside.push(((GroupType) inside.peek()).getType(index));
      out.startField(field, index);
    }

    @Override
    public void endField(String field, int index) {
      inside.pop();
      out.endField(field, index);
    }

    @Override
    public void startMessage() {
      out.startMessage();
    }

    @Override
    public void endMessage() {
      out.endMessage();
    }

    @Override
    public void startGroup() {
      out.startGroup();
    }

    @Override
    public void endGroup() {
      out.endGroup();
    }

    @Override
    public void addInteger(int value) {
      out.addInteger(value);
    }

    @Override
    public void addLong(long value) {
      out.addLong(value);
    }

    @Override
    public void addBoolean(boolean value) {
      out.addBoolean(value);
    }

    @Override
    public void addFloat(float value) {
      out.addFloat(value);
    }

    @Override
    public void addDouble(double value) {
      out.addDouble(value);
    }

    @Override
    public void flush() {
      out.flush();
    }
  }

  static byte[] uuid(String text, String column) {
    try {
      UUID uuid = UUID.fromString(text);
      if (text.length() == 36) { // Java also parses shorter texts
        return java.nio.ByteBuffer.allocate(16)
            .putLong(uuid.getMostSignificantBits())
            .putLong(uuid.getLeastSignificantBits())
            .array();
      }
    } catch (IllegalArgumentException error) {
      // The text is a value of a row and must not be logged.
    }
    throw new IllegalArgumentException(
        "column "
            + column
            + ": found a string that is not a UUID, expected 36 characters such as"
            + " 00000000-0000-0000-0000-000000000000");
  }
}
