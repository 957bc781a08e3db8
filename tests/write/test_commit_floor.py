"""The floor under every writer: a file enters an encrypted table with its key and length, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.errors import PlaintextFileError
from sealberg.keys.file_key import new_file_key
from sealberg.metadata.manifest import DataFileV3
from sealberg.write.snapshot_builder import FileChanges

if TYPE_CHECKING:
    from pathlib import Path

    from sealberg.format.key_metadata import KeyMetadata


def table(folder: Path, **properties: str) -> Any:
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}
    uri, place = f"sqlite:///{folder}/c.db", f"file://{folder}/warehouse"
    # Even where plaintext files may be read, none may be written.
    catalog = EncryptedSqlCatalog("c", uri=uri, warehouse=place, **kms, **{"encryption.allow-plaintext-files": "true"})
    catalog.create_namespace("db")
    return catalog.create_table("db.t", pa.schema([("id", pa.int64())]), properties=properties)


def data_file(keys: KeyMetadata | None) -> DataFileV3:
    file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path="file:///nowhere/x.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=100,
        key_metadata=keys.encode() if keys else None,
    )
    file.spec_id = 0
    return file


@pytest.mark.parametrize("keys", [None, new_file_key()], ids=["no-key", "no-length"])
@pytest.mark.parametrize("where", ["added", "added_deletes"])
def test_a_file_without_a_key_or_a_length_never_enters_an_encrypted_table(
    tmp_path: Path, keys: KeyMetadata | None, where: str
) -> None:
    sealed = table(tmp_path, **{"encryption.key-id": "hr"})
    files = (data_file(keys),)
    changes = FileChanges(added=files) if where == "added" else FileChanges(added_deletes=files)
    with pytest.raises(PlaintextFileError, match=r"x\.parquet: cannot add the file to an encrypted table"):
        sealed.transaction().commit_changes(changes)
    assert sealed.refresh().snapshots() == []
    assert not list((tmp_path / "warehouse").rglob("*.avro"))


def test_an_encrypted_file_never_enters_a_table_that_could_not_read_it(tmp_path: Path) -> None:
    plain = table(tmp_path, **{"format-version": "3"})
    with pytest.raises(PlaintextFileError, match="to a table that is not encrypted"):
        plain.transaction().commit_changes(FileChanges(added=(data_file(new_file_key().with_length(100)),)))
