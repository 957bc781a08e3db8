//! iceberg-rust 0.10.1 for the runner of the vectors, by the public parts of its `encryption` module.
//!
//!     cargo run -- [OPERATION FOLDER]
//!
//! Without arguments the operations are lines on stdin, and the exit codes lines on stdout.

use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iceberg::encryption::kms::MemoryKeyManagementClient;
use iceberg::encryption::{
    EncryptedInputFile, EncryptedOutputFile, EncryptionManager, KeyManagementClient, SensitiveBytes, StandardKeyMetadata,
};
use iceberg::io::FileIO;
use iceberg::spec::EncryptedKey;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
const DONE: i32 = 0;
const REFUSED: i32 = 10;
const NOT_SUPPORTED: i32 = 11;

struct Folder(PathBuf);

impl Folder {
    fn location(&self, name: &str) -> String {
        format!("file:{}", self.0.join(name).display())
    }

    fn read(&self, name: &str) -> Outcome<Vec<u8>> {
        Ok(fs::read(self.0.join(name))?)
    }

    fn text(&self, name: &str) -> Outcome<String> {
        Ok(fs::read_to_string(self.0.join(name))?)
    }

    fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Outcome<()> {
        Ok(fs::write(self.0.join(name), bytes)?)
    }

    fn key_metadata(&self, key: &str, length: &str) -> Outcome<StandardKeyMetadata> {
        let mut made = StandardKeyMetadata::new(&self.read(key)?);
        if self.has("aad-prefix") {
            made = made.with_aad_prefix(&self.read("aad-prefix")?);
        }
        if self.has(length) {
            made = made.with_file_length(self.text(length)?.parse()?);
        }
        Ok(made)
    }
}

async fn open(folder: &Folder) -> Outcome<()> {
    let stream = FileIO::new_with_fs().new_input(folder.location("stream"))?;
    let plaintext = EncryptedInputFile::new(stream, folder.key_metadata("key", "length")?).read().await?;
    folder.write("plaintext", plaintext)
}

async fn seal(folder: &Folder) -> Outcome<()> {
    let stream = FileIO::new_with_fs().new_output(folder.location("stream"))?;
    let file = EncryptedOutputFile::new(stream, folder.key_metadata("key", "length")?);
    file.write(folder.read("plaintext")?.into()).await?;
    folder.write("length", fs::metadata(folder.0.join("stream"))?.len().to_string())
}

fn decode(folder: &Folder) -> Outcome<()> {
    let found = StandardKeyMetadata::decode(&folder.read("blob")?)?;
    folder.write("encryption-key", found.encryption_key().as_bytes())?;
    if let Some(aad_prefix) = found.aad_prefix() {
        folder.write("aad-prefix", aad_prefix)?;
    }
    if let Some(length) = found.file_length() {
        folder.write("file-length", length.to_string())?;
    }
    Ok(())
}

fn encode(folder: &Folder) -> Outcome<()> {
    folder.write("blob", folder.key_metadata("encryption-key", "file-length")?.encode()?)
}

async fn find(folder: &Folder) -> Outcome<()> {
    let kms = MemoryKeyManagementClient::new();
    for line in folder.text("master-keys")?.lines() {
        let (id, digits) = line.split_once(' ').ok_or("a master key is an id and hex digits")?;
        let key: Result<Vec<u8>, _> =
            (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16)).collect();
        kms.add_master_key_bytes(id, SensitiveBytes::new(key?))?;
    }
    let kms: Arc<dyn KeyManagementClient> = Arc::new(kms);
    let keys: Vec<EncryptedKey> = serde_json::from_slice(&folder.read("encryption-keys")?)?;
    let keys = keys.into_iter().map(|key| (key.key_id().to_string(), key)).collect();
    let manager = EncryptionManager::builder()
        .kms_client(kms)
        .table_key_id(folder.text("table-key-id")?)
        .encryption_keys(keys)
        .build();
    let found = manager.decrypt_manifest_list_key_metadata(&folder.text("snapshot-key-id")?).await?;
    folder.write("key-metadata", found.encode()?)
}

async fn answer(operation: &str, place: &str) -> i32 {
    let folder = Folder(Path::new(place).to_path_buf());
    let outcome = match operation {
        "open" => open(&folder).await,
        "seal" => seal(&folder).await,
        "decode" => decode(&folder),
        "encode" => encode(&folder),
        "find" => find(&folder).await,
        _ => return NOT_SUPPORTED,
    };
    match outcome {
        Ok(()) => DONE,
        Err(error) => {
            eprintln!("{operation} {place}: {error}");
            REFUSED
        }
    }
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [operation, folder] = words.as_slice() {
        std::process::exit(answer(operation, folder).await);
    }
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (operation, folder) = line.split_once(' ').ok_or("a line is OPERATION FOLDER")?;
        println!("{}", answer(operation, folder).await);
        std::io::stdout().flush()?;
    }
    Ok(())
}
