package org.apache.iceberg.encryption;

import java.nio.ByteBuffer;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SchemaParser;
import org.apache.iceberg.SingleValueParser;
import org.apache.iceberg.Table;
import org.apache.iceberg.UpdateSchema;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.IdentityPartitionConverters;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.hive.HiveCatalog;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;

/**
 * What Spark cannot do with a table, done through Iceberg's API: columns of any type, defaults, void partitions,
 * equality deletes, commits at another time. Lies in this package for the clock of the encryption manager.
 *
 * <p>Values come as JSON, in the spelling of the specification ("JSON single-value serialization").
 */
public final class Corpus {
    public static void create(
            String uri, String warehouse, String name, String schema, boolean voids, Map<String, String> properties) {
        HiveCatalog catalog = new HiveCatalog();
        catalog.setConf(new org.apache.hadoop.conf.Configuration());
        catalog.initialize(
                "h",
                Map.of("uri", uri, "warehouse", warehouse, "encryption.kms-impl", UnitestKMS.class.getName()));
        Schema parsed = SchemaParser.fromJson(schema);
        PartitionSpec.Builder spec = PartitionSpec.builderFor(parsed);
        if (voids) {
            spec.alwaysNull(parsed.columns().get(0).name()).identity(parsed.columns().get(1).name());
        }
        catalog.createTable(TableIdentifier.of("db", name), parsed, spec.build(), null, properties);
    }

    /** Add a column with a value for the rows that are there, and for those that come without one. */
    public static void addColumn(Table table, String name, String type, String json) {
        UpdateSchema update = table.updateSchema();
        Type parsed = Types.fromPrimitiveString(type);
        update.addColumn(name, parsed, null, literal(parsed, json)).commit();
    }

    public static void newDefault(Table table, String name, String json) {
        Type type = table.schema().findType(name);
        table.updateSchema().updateColumnDefault(name, literal(type, json)).commit();
    }

    private static Literal<?> literal(Type type, String json) {
        Object value = SingleValueParser.fromJson(type, json);
        switch (type.typeId()) {
            case INTEGER: return Literal.of((Integer) value);
            case LONG: return Literal.of((Long) value);
            case FLOAT: return Literal.of((Float) value);
            case DOUBLE: return Literal.of((Double) value);
            case BOOLEAN: return Literal.of((Boolean) value);
            case STRING: return Literal.of((CharSequence) value);
            case DECIMAL: return Literal.of((java.math.BigDecimal) value);
            case BINARY: return Literal.of((ByteBuffer) value);
            case FIXED: return Literal.of((ByteBuffer) value).to(type);
            case UUID: return Literal.of((java.util.UUID) value);
            case DATE: return Literal.of(LocalDate.ofEpochDay((Integer) value).toString()).to(type);
            default: return Literal.of(json.replace("\"", "")).to(type);
        }
    }

    /** Append rows in one file a partition, as if `shiftMs` from now. */
    public static void append(Table table, String format, long shiftMs, List<List<String>> rows) throws Exception {
        AppendFiles append = table.newAppend();
        for (DataFile file : dataFiles(table, format, records(table.schema(), rows))) {
            append.appendFile(file);
        }
        clock(table).setTestTimeShift(shiftMs);
        append.commit();
        clock(table).setTestTimeShift(0);
    }

    /** Delete all rows that have one of these values in the columns, and add others in the same commit. */
    public static void deleteEqual(
            Table table, String format, List<String> columns, List<List<String>> values, List<List<String>> rows)
            throws Exception {
        int[] ids = columns.stream().mapToInt(name -> table.schema().findField(name).fieldId()).toArray();
        Schema deleted = table.schema().select(columns);
        FileFormat kind = FileFormat.fromString(format);
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table)
                .deleteFileFormat(kind)
                .equalityFieldIds(ids)
                .equalityDeleteRowSchema(deleted)
                .build();
        EqualityDeleteWriter<Record> writer =
                factory.newEqualityDeleteWriter(files(table, kind).newOutputFile(), PartitionSpec.unpartitioned(), null);
        for (Record record : records(deleted, values)) {
            writer.write(record);
        }
        writer.close();
        DeleteFile file = writer.toDeleteFile();
        RowDelta delta = table.newRowDelta().addDeletes(file);
        for (DataFile added : dataFiles(table, format, records(table.schema(), rows))) {
            delta.addRows(added);
        }
        delta.commit();
    }

    private static List<DataFile> dataFiles(Table table, String format, List<Record> records) throws Exception {
        FileFormat kind = FileFormat.fromString(format);
        GenericFileWriterFactory factory =
                new GenericFileWriterFactory.Builder(table).dataFileFormat(kind).dataSchema(table.schema()).build();
        InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
        List<PartitionKey> partitions = new ArrayList<>();
        List<DataWriter<Record>> writers = new ArrayList<>();
        for (Record record : records) {
            PartitionKey key = new PartitionKey(table.spec(), table.schema());
            key.partition(wrapper.wrap(record));
            int at = partitions.indexOf(key);
            if (at < 0) {
                at = partitions.size();
                partitions.add(key);
                EncryptedOutputFile file = table.spec().isUnpartitioned()
                        ? files(table, kind).newOutputFile()
                        : files(table, kind).newOutputFile(table.spec(), key);
                writers.add(factory.newDataWriter(file, table.spec(), table.spec().isUnpartitioned() ? null : key));
            }
            writers.get(at).write(record);
        }
        List<DataFile> made = new ArrayList<>();
        for (DataWriter<Record> writer : writers) {
            writer.close();
            made.add(writer.toDataFile());
        }
        return made;
    }

    private static OutputFileFactory files(Table table, FileFormat format) {
        return OutputFileFactory.builderFor(table, 1, System.nanoTime()).format(format).build();
    }

    private static StandardEncryptionManager clock(Table table) {
        return (StandardEncryptionManager) ((HasTableOperations) table).operations().encryption();
    }

    private static List<Record> records(Schema schema, List<List<String>> rows) {
        List<Record> made = new ArrayList<>();
        for (List<String> row : rows) {
            GenericRecord record = GenericRecord.create(schema);
            for (int i = 0; i < row.size(); i++) {
                Type type = schema.columns().get(i).type();
                Object value = row.get(i) == null ? null : SingleValueParser.fromJson(type, row.get(i));
                boolean fixed = value != null && type.typeId() == Type.TypeID.FIXED;
                Object given = IdentityPartitionConverters.convertConstant(type, value);
                record.set(i, fixed ? bytes((ByteBuffer) value) : given);
            }
            made.add(record);
        }
        return made;
    }

    /** The rows of a snapshot with their lineage, as lines of JSON, for columns that Spark does not know. */
    public static List<String> rows(Table table, long snapshot) throws Exception {
        List<Types.NestedField> fields = new ArrayList<>(table.schemas().get(table.snapshot(snapshot).schemaId()).columns());
        fields.add(MetadataColumns.ROW_ID);
        fields.add(MetadataColumns.LAST_UPDATED_SEQUENCE_NUMBER);
        List<String> lines = new ArrayList<>();
        try (CloseableIterable<Record> read =
                IcebergGenerics.read(table).useSnapshot(snapshot).project(new Schema(fields)).build()) {
            for (Record record : read) {
                List<String> members = new ArrayList<>();
                for (Types.NestedField field : fields) {
                    members.add(quoted(field.name()) + ":" + spelt(record.getField(field.name())));
                }
                lines.add("{" + String.join(",", members) + "}");
            }
        }
        return lines;
    }

    private static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("HH:mm:ss.SSSSSS");
    private static final DateTimeFormatter NANOS = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSSSSS");

    private static String spelt(Object value) {
        if (value == null) {
            return "null";
        } else if (value instanceof LocalTime) {
            return quoted(((LocalTime) value).format(MICROS));
        } else if (value instanceof LocalDateTime) {
            return quoted(((LocalDateTime) value).format(NANOS));
        } else if (value instanceof OffsetDateTime) {
            return quoted(((OffsetDateTime) value).format(NANOS) + "Z");
        } else if (value instanceof byte[]) {
            return quoted(Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof ByteBuffer) {
            return quoted(Base64.getEncoder().encodeToString(bytes((ByteBuffer) value)));
        } else if (value instanceof Number || value instanceof Boolean) {
            return value.toString();
        } else {
            return quoted(value.toString()); // text, dates, uuids
        }
    }

    private static String quoted(String text) {
        return "\"" + text.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    private Corpus() {}
}
