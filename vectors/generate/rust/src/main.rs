//! A table put together from the parts that iceberg-rust 0.10.1 has, and what it can do with the tables of others.
//!
//!     cargo run -- write FOLDER        a table under FOLDER/wh/db.db/rust, and its rows under FOLDER/expected
//!     cargo run -- plan METADATA...    the data files of a table, through its encrypted list and manifests
//!
//! Its transactions refuse encrypted tables, so the commit is made by hand: EncryptionManager, ManifestWriter,
//! ManifestListWriter and TableMetadataBuilder are the crate's own, and so is every byte but those of the Parquet
//! file, which the parquet crate encrypts. Its keys carry no file length.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use futures::TryStreamExt;
use iceberg::encryption::kms::MemoryKeyManagementClient;
use iceberg::encryption::{EncryptionManager, KeyManagementClient, SensitiveBytes};
use iceberg::io::FileIO;
use iceberg::spec::{
    DataContentType, DataFileBuilder, DataFileFormat, FormatVersion, ManifestListWriter, ManifestWriterBuilder,
    NestedField, Operation, PrimitiveType, Schema, Snapshot, Struct, Summary, TableMetadata, TableMetadataBuilder, Type,
};
use iceberg::table::Table;
use iceberg::{MetadataLocation, Runtime, TableCreation, TableIdent};
use parquet::arrow::ArrowWriter;
use parquet::encryption::encrypt::FileEncryptionProperties;
use parquet::file::properties::WriterProperties;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
const ROWS: [(i64, Option<&str>); 3] = [(1, Some("from rust")), (2, None), (3, Some("ünïcødé"))];
const SNAPSHOT: i64 = 7001;

fn kms() -> Outcome<Arc<dyn KeyManagementClient>> {
    let made = MemoryKeyManagementClient::new();
    for (id, key) in [("keyA", b"0123456789012345"), ("keyB", b"1123456789012345")] {
        made.add_master_key_bytes(id, SensitiveBytes::new(*key))?;
    }
    Ok(Arc::new(made))
}

async fn write(folder: &str) -> Outcome<()> {
    let location = format!("file:{folder}/wh/db.db/rust");
    let path = |name: &str| format!("{location}/{name}");
    fs::create_dir_all(format!("{folder}/wh/db.db/rust/metadata"))?;
    fs::create_dir_all(format!("{folder}/wh/db.db/rust/data"))?;
    let io = FileIO::new_with_fs();
    let manager = EncryptionManager::builder().kms_client(kms()?).table_key_id("keyA").build();
    let schema = Schema::builder()
        .with_schema_id(0)
        .with_fields(vec![
            NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long)).into(),
            NestedField::optional(2, "data", Type::Primitive(PrimitiveType::String)).into(),
        ])
        .build()?;
    let properties = [("encryption.key-id".to_string(), "keyA".to_string())];
    let creation = TableCreation::builder()
        .name("rust".to_string())
        .location(location.clone())
        .schema(schema)
        .properties(properties)
        .format_version(FormatVersion::V3)
        .build();
    let created = TableMetadataBuilder::from_table_creation(creation)?.build()?.metadata;
    let schema = created.current_schema().clone();

    // A data file, under a key of the manager's making.
    let data = path("data/00000.parquet");
    let keys = manager.encrypt(io.new_output(&data)?).key_metadata().clone();
    let prefix = keys.aad_prefix().expect("the manager gives one").to_vec();
    let sealed = FileEncryptionProperties::builder(keys.encryption_key().as_bytes().to_vec())
        .with_aad_prefix(prefix)
        .with_aad_prefix_storage(false)
        .build()?;
    let arrow = Arc::new(iceberg::arrow::schema_to_arrow_schema(&schema)?);
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ROWS.iter().map(|row| row.0)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter(ROWS.iter().map(|row| row.1)));
    let batch = RecordBatch::try_new(arrow.clone(), vec![ids, texts])?;
    let options = WriterProperties::builder().with_file_encryption_properties(sealed).build();
    let mut writer = ArrowWriter::try_new(fs::File::create(data.trim_start_matches("file:"))?, arrow, Some(options))?;
    writer.write(&batch)?;
    writer.close()?;
    let file = DataFileBuilder::default()
        .content(DataContentType::Data)
        .file_path(data.clone())
        .file_format(DataFileFormat::Parquet)
        .file_size_in_bytes(fs::metadata(data.trim_start_matches("file:"))?.len())
        .record_count(ROWS.len() as u64)
        .partition(Struct::empty())
        .partition_spec_id(0)
        .key_metadata(Some(keys.encode()?.to_vec()))
        .build()?;

    // Its manifest, and the list.
    let output = manager.encrypt(io.new_output(path("metadata/manifest.avro"))?);
    let spec = created.default_partition_spec().as_ref().clone();
    let mut manifest =
        ManifestWriterBuilder::new_from_encrypted(output, Some(SNAPSHOT), schema, spec)?.build_v3_data();
    manifest.add_file(file, 1)?;
    let manifest = manifest.write_manifest_file().await?;
    let output = manager.encrypt(io.new_output(path("metadata/list.avro"))?);
    let mut list = ManifestListWriter::v3(output.writer().await?, SNAPSHOT, None, 1, Some(0));
    list.add_manifests([manifest].into_iter())?;
    list.close().await?;
    let key_id = manager.encrypt_manifest_list_key_metadata(output.key_metadata()).await?;

    // The commit that a transaction would make.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as i64;
    let snapshot = Snapshot::builder()
        .with_snapshot_id(SNAPSHOT)
        .with_sequence_number(1)
        .with_timestamp_ms(now)
        .with_manifest_list(path("metadata/list.avro"))
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
        .with_schema_id(0)
        .with_encryption_key_id(Some(key_id))
        .with_row_range(0, ROWS.len() as u64)
        .build();
    let mut builder = TableMetadataBuilder::new_from_metadata(created, None);
    for key in manager.with_encryption_keys(|keys| keys.values().cloned().collect::<Vec<_>>()) {
        builder = builder.add_encryption_key(key);
    }
    let metadata = builder.set_branch_snapshot(snapshot, "main")?.build()?.metadata;
    metadata.write_to(&io, &MetadataLocation::new_with_metadata(&location, &metadata)).await?;
    let expected = format!("{folder}/expected/rust");
    fs::create_dir_all(&expected)?;
    let lines = ROWS.iter().enumerate().map(|(at, (id, text))| {
        let text = text.map_or("null".to_string(), |text| format!("\"{text}\""));
        format!("{{\"id\":{id},\"data\":{text},\"_row_id\":{at},\"_last_updated_sequence_number\":1}}\n")
    });
    fs::write(format!("{expected}/rows-{SNAPSHOT}.jsonl"), lines.collect::<String>())?;
    Ok(())
}

async fn plan(location: &str) -> Outcome<()> {
    let io = FileIO::new_with_fs();
    let metadata = TableMetadata::read_from(&io, location).await?;
    let table = Table::builder()
        .file_io(io)
        .metadata(metadata)
        .identifier(TableIdent::from_strs(["db", "t"])?)
        .kms_client(kms()?)
        .runtime(Runtime::try_current()?)
        .build()?;
    let scan = table.scan().build()?;
    let tasks: Vec<_> = scan.plan_files().await?.try_collect().await?;
    println!("{} data files, {:?} records", tasks.len(), tasks.iter().filter_map(|one| one.record_count).sum::<u64>());
    let batches: Result<Vec<RecordBatch>, _> = async { scan.to_arrow().await?.try_collect().await }.await;
    match batches {
        Ok(batches) => println!("{} rows", batches.iter().map(RecordBatch::num_rows).sum::<usize>()),
        Err(error) => println!("no rows: {error}"),
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, [folder])) if verb == "write" => write(folder).await,
        Some((verb, locations)) if verb == "plan" => {
            for location in locations {
                println!("{location}");
                if let Err(error) = plan(location).await {
                    println!("not read: {error}");
                }
            }
            Ok(())
        }
        _ => Err("write FOLDER, or plan METADATA...".into()),
    }
}
