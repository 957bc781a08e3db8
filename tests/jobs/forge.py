"""A table with one of everything, and a forger who has all keys: he can make any file say anything.

    lake = Lake(tmp_path)          a table with Parquet, Avro, a deletion vector, partitions, four snapshots
    with lake.forge() as forge:
        forge.entries(change)      the entries of a manifest are changed, and all that depends on it is sealed anew
        forge.lines(change)        the same for the lines of the manifest list
        forge.document(change)     the same for metadata.json; the catalog vouches for the result

A lie that is sealed in this way is authentic. Only a comparison with other facts finds it.
"""

from __future__ import annotations

import io
import json
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables.tables import data_files, delete_files, head, local, make, sealed_catalog, stored
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.seal import seal_bytes
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.metadata.manifest import DataFileV3
    from sealberg.table.catalog_table import CatalogTable

    Records = list[dict[str, Any]]

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "score", DoubleType()),
    NestedField(4, "cat", StringType()),
)
SPEC = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "cat"))


def rows(first: int, stop: int) -> pa.Table:
    ids = range(first, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"canary-{i % 3}" for i in ids],
            "score": [None if i % 7 == 0 else i / 2 for i in ids],
            "cat": ["x" if i % 2 else "y" for i in ids],
        }
    )


class Lake:
    """A folder with a catalog and one table; `restore` undoes whatever a test did to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with sealed_catalog(folder) as catalog:
            table = make(catalog, SCHEMA, SPEC, **{"write.delete.mode": "merge-on-read"})
            self.name = ".".join(table.name())
            table.append(rows(0, 20))
            table.append(rows(20, 40))
            table.delete("id == 3")
            with table.transaction() as change:
                change.set_properties({"write.format.default": "avro"})
            table.append(rows(40, 60))
        self._bytes = {path: path.read_bytes() for path in stored(folder)}

    def restore(self) -> None:
        for path in stored(self.folder):
            if path not in self._bytes:
                path.unlink()
        for path, content in self._bytes.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)

    @contextmanager
    def catalog(self, **properties: str) -> Iterator[EncryptedSqlCatalog]:
        with sealed_catalog(self.folder, **properties) as catalog:
            yield catalog

    @contextmanager
    def forge(self) -> Iterator[Forge]:
        with sealed_catalog(self.folder) as catalog:
            table: Any = catalog.load_table(self.name)
            yield Forge(catalog, table)


@dataclass
class Forge:
    """Changes the table of a lake, with all of its keys."""

    catalog: EncryptedSqlCatalog
    table: CatalogTable
    fresh: list[Path] = field(default_factory=list)

    # -- files ----------------------------------------------------------------------------------

    def data(self, file_format: FileFormat = FileFormat.PARQUET) -> list[DataFileV3]:
        return [file for file in data_files(self.table) if file.file_format == file_format]

    def parquet(self, at: int = 0) -> Path:
        return local(self.data()[at].file_path)

    def avro(self, at: int = 0) -> Path:
        return local(self.data(FileFormat.AVRO)[at].file_path)

    def puffin(self) -> Path:
        return local(delete_files(self.table)[0].file_path)

    def list_file(self) -> Path:
        return local(head(self.table).manifest_list)

    def manifest(self, at: int = 0) -> Path:
        return local(head(self.table).manifests(self.table.io)[at].manifest_path)

    @property
    def metadata(self) -> Path:
        return local(self.table.metadata_location)

    @property
    def root(self) -> Path:
        return local(self.table.metadata.location)

    # -- lies -----------------------------------------------------------------------------------

    def entries(self, change: Callable[[Records], object], *, deletes: bool = False, avro: bool = False) -> None:
        """Change the entries of the newest manifest of Parquet files, of Avro files, or of deletes."""

        def line_changed(lines: Records) -> None:
            wanted = ManifestContent.DELETES.value if deletes else ManifestContent.DATA.value
            for line in sorted(lines, key=lambda line: -line["sequence_number"]):
                path = local(line["manifest_path"])
                key = KeyMetadata.decode(line["key_metadata"])
                plain = opened(path, key)
                kinds = {entry["data_file"]["file_format"] for entry in records(plain)}
                if line["content"] != wanted or (not deletes and kinds != {"AVRO" if avro else "PARQUET"}):
                    continue
                path = path.with_name(f"forged-{path.name}")  # older snapshots keep theirs
                sealed = self.sealed(path, forged(plain, change), new_file_key(len(key.encryption_key)))
                line["key_metadata"], line["manifest_length"] = sealed.encode(), sealed.file_length
                line["manifest_path"] = f"file://{path}"
                return
            raise AssertionError("no such manifest")

        self.lines(line_changed)

    def lines(self, change: Callable[[Records], object]) -> None:
        """Change the lines of the current snapshot's manifest list."""
        metadata = self.table.metadata
        snapshot = head(self.table)
        assert snapshot.key_id is not None
        manager = self.table.encryption
        assert manager is not None
        path, key = local(snapshot.manifest_list), manager.open_list_key(metadata.encryption_keys, snapshot.key_id)
        sealed = self.sealed(path, forged(opened(path, key), change), key)
        ring, key_id = manager.seal_list_key(metadata.encryption_keys.without([snapshot.key_id]), sealed)

        def put(document: dict[str, Any]) -> None:
            document["encryption-keys"] = ring.to_json()
            for each in document["snapshots"]:
                if each["snapshot-id"] == snapshot.snapshot_id:
                    each["key-id"] = key_id

        self.document(put)

    def document(self, change: Callable[[dict[str, Any]], object], *, vouched: bool = True) -> None:
        """Change metadata.json; the catalog vouches for it unless told otherwise."""
        document = json.loads(self.metadata.read_text())
        change(document)
        self.metadata.write_text(json.dumps(document))
        if vouched:
            self.vouch()

    def vouch(self) -> None:
        """Put the hash of metadata.json into the catalog, whatever the file holds."""
        from sealberg.metadata.table_metadata import metadata_hash

        self.sql(
            "UPDATE sealberg_trust SET metadata_hash = ?, metadata_location = ?",
            metadata_hash(self.metadata.read_bytes()),
            self.table.metadata_location,
        )

    def sql(self, statement: str, *values: object) -> None:
        import sqlite3

        path = str(self.catalog.properties["uri"]).removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as database:
            database.execute(statement, values)
            database.commit()

    def sealed(self, path: Path, plain: bytes, key: KeyMetadata) -> KeyMetadata:
        """Replace a file by another plaintext under this key and AAD prefix."""
        content, sealed = seal_bytes(plain, KeyMetadata(key.encryption_key, key.aad_prefix))
        path.write_bytes(content)
        return sealed


def opened(path: Path, key: KeyMetadata) -> bytes:
    with Ags1Reader(path, key) as stream:
        return stream.read()


def records(plain: bytes) -> Records:
    return [dict(record) for record in fastavro.reader(io.BytesIO(plain)) if isinstance(record, dict)]


def forged(plain: bytes, change: Callable[[Records], object]) -> bytes:
    """The same Avro file with other records."""
    reader = fastavro.reader(io.BytesIO(plain))
    read = [dict(record) for record in reader if isinstance(record, dict)]
    change(read)
    about = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    out = io.BytesIO()
    fastavro.writer(out, reader.writer_schema, read, codec=reader.metadata["avro.codec"], metadata=about)
    return out.getvalue()
