"""Statistics files of encrypted tables: their keys are committed, kept and removed with them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import RemoveStatisticsUpdate, SetPartitionStatisticsUpdate, SetStatisticsUpdate

from kit.tables import tables
from sealberg.errors import IntegrityError, KeyringError, PlaintextFileError
from sealberg.files.file_io import keyed
from sealberg.metadata.statistics import (
    V3PartitionStatisticsFile,
    V3StatisticsFile,
    needed_keys,
    statistics_files,
    statistics_key_id,
)
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate, update_json
from sealberg.table.statistics import StatisticsChange, open_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

ROWS = pa.table({"x": pa.array([1, 2, 2], pa.int64())})
SECRET = b"PFA1 is only the beginning of this file"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


@pytest.fixture
def table(catalog: EncryptedSqlCatalog) -> CatalogTable:
    made = tables.make(catalog, ROWS.schema)
    made.append(ROWS)
    return made


def written(table: CatalogTable, name: str = "s.stats", *, partition: bool = False) -> StatisticsChange:
    """An encrypted file beside the metadata, not committed yet."""
    assert table.encryption is not None
    location = table.location_provider().new_metadata_location(name)
    output = table.io.new_output(keyed(location, table.encryption.new_file_key().encode()))
    with output.create() as sink:
        sink.write(SECRET)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    about = {
        "snapshot-id": snapshot.snapshot_id,
        "statistics-path": location,
        "file-size-in-bytes": len(output),
    }
    kind = V3PartitionStatisticsFile if partition else V3StatisticsFile
    more: dict[str, Any] = {} if partition else {"file-footer-size-in-bytes": 4, "blob-metadata": []}
    return StatisticsChange(kind.model_validate({**about, **more}), output.key_metadata)  # type: ignore[attr-defined]


def commit(table: CatalogTable, change: StatisticsChange) -> None:
    tx = table.transaction()
    tx.commit_statistics(change)
    tx.commit_transaction()


def key_of(table: CatalogTable) -> str:
    (file,) = statistics_files(table.metadata)
    key_id = statistics_key_id(table.metadata.encryption_keys, file)
    assert key_id is not None
    return key_id


def content(table: CatalogTable, file: Any) -> bytes:
    key = open_key(table.metadata, table.io, file)  # type: ignore[arg-type]
    assert key is not None
    with table.io.new_input(keyed(file.statistics_path, key.encode())).open() as stream:
        return stream.read()


@pytest.mark.parametrize("partition", [False, True])
def test_the_key_is_committed_with_the_file_and_opens_it(table: CatalogTable, partition: bool) -> None:
    commit(table, written(table, partition=partition))
    table.refresh()
    (file,) = table.metadata.partition_statistics if partition else table.metadata.statistics
    assert content(table, file) == SECRET
    assert key_of(table) in needed_keys(table.metadata)
    assert SECRET not in tables.local(file.statistics_path).read_bytes()


def test_the_entry_of_the_file_has_only_members_that_java_knows(table: CatalogTable) -> None:
    commit(table, written(table))
    (entry,) = json.loads(table.metadata.to_json())["statistics"]
    known = ["snapshot-id", "statistics-path", "file-size-in-bytes", "file-footer-size-in-bytes", "blob-metadata"]
    assert list(entry) == known


def test_a_key_id_of_a_later_specification_is_understood_and_kept(table: CatalogTable) -> None:
    commit(table, written(table))
    raw = json.loads(table.metadata.to_json())
    raw["statistics"][0]["key-id"] = key_of(table)
    for entry in raw["encryption-keys"]:
        if entry["key-id"] == key_of(table):
            del entry["properties"]
    later = V3TableMetadata.from_raw(raw)
    assert needed_keys(later) == needed_keys(table.metadata)
    assert json.loads(later.to_json())["statistics"] == raw["statistics"]


def test_a_later_commit_keeps_the_file_and_its_key(table: CatalogTable) -> None:
    commit(table, written(table))
    table.append(ROWS)
    table.refresh()
    (file,) = table.metadata.statistics
    assert content(table, file) == SECRET


@pytest.mark.parametrize("partition", [False, True])
def test_removal_takes_the_key(table: CatalogTable, partition: bool) -> None:
    before = len(table.metadata.encryption_keys)
    commit(table, written(table, partition=partition))
    number = table.metadata.current_snapshot_id
    assert number is not None
    update: Any = table.update_statistics()
    (update.remove_partition_statistics if partition else update.remove_statistics)(number).commit()
    assert len(table.metadata.encryption_keys) == before
    assert not table.metadata.statistics
    assert not table.metadata.partition_statistics


def test_a_second_file_replaces_the_first_and_its_key(table: CatalogTable) -> None:
    commit(table, written(table, "a.stats"))
    first = key_of(table)
    commit(table, written(table, "b.stats"))
    (second,) = table.metadata.statistics
    assert first not in table.metadata.encryption_keys
    assert content(table, second) == SECRET


@pytest.mark.parametrize("partition", [False, True])
def test_expiry_takes_the_statistics_of_the_snapshot_and_their_key(table: CatalogTable, partition: bool) -> None:
    commit(table, written(table, partition=partition))
    first = table.metadata.current_snapshot_id
    table.append(ROWS)
    table.maintenance.expire_snapshots().by_id(first).commit()  # type: ignore[arg-type]
    assert not [*table.metadata.statistics, *table.metadata.partition_statistics]
    assert len(table.metadata.encryption_keys) == 2  # a KEK and the key of the list that is left


def test_the_key_cannot_be_removed_without_the_file(table: CatalogTable) -> None:
    commit(table, written(table))
    tx = table.transaction()
    tx.stage((RemoveEncryptionKeyUpdate.model_validate({"key-id": key_of(table)}),))
    with pytest.raises(KeyringError, match="would lose its key"):
        tx.commit_transaction()


@pytest.mark.parametrize("partition", [False, True])
def test_a_file_without_a_key_is_refused_by_the_commit(table: CatalogTable, partition: bool) -> None:
    file = written(table, partition=partition).file
    update: Any = (
        SetPartitionStatisticsUpdate.model_validate({"partition-statistics": file})
        if partition
        else SetStatisticsUpdate.model_validate({"statistics": file})
    )
    tx = table.transaction()
    tx.stage((update,))
    with pytest.raises(PlaintextFileError, match="is not encrypted, but the table is"):
        tx.commit_transaction()


def test_another_writer_in_between_costs_neither_the_file_nor_the_key(
    catalog: EncryptedSqlCatalog, table: CatalogTable
) -> None:
    change = written(table)
    tx = table.transaction()
    tx.commit_statistics(change)
    catalog.load_table(table.name()).append(ROWS)
    tx.commit_transaction()
    (file,) = table.metadata.statistics
    assert content(table, file) == SECRET
    assert len(table.metadata.snapshots) == 2


def test_an_expired_snapshot_takes_no_statistics_and_the_file_goes(
    catalog: EncryptedSqlCatalog, table: CatalogTable
) -> None:
    change = written(table)
    tx = table.transaction()
    tx.commit_statistics(change)
    other: Any = catalog.load_table(table.name())
    other.append(ROWS)
    other.maintenance.expire_snapshots().by_id(change.file.snapshot_id).commit()
    with pytest.raises(ValidationException, match="has expired the snapshot meanwhile"):
        tx.commit_transaction()
    assert not tables.local(change.file.statistics_path).exists()


def test_a_tampered_file_is_refused(table: CatalogTable) -> None:
    commit(table, written(table))
    (file,) = table.metadata.statistics
    path = tables.local(file.statistics_path)
    stored = bytearray(path.read_bytes())
    stored[30] ^= 1
    path.write_bytes(stored)
    with pytest.raises(IntegrityError):
        content(table, file)


def test_a_rest_server_is_sent_the_file_in_the_form_of_metadata_json(table: CatalogTable) -> None:
    commit(table, written(table))
    (file,) = table.metadata.statistics
    sent = update_json(SetStatisticsUpdate.model_validate({"statistics": file}))
    (entry,) = json.loads(table.metadata.to_json())["statistics"]
    assert sent == {"action": "set-statistics", "snapshot-id": file.snapshot_id, "statistics": entry}


def test_a_plain_table_takes_plain_statistics_as_in_pyiceberg(catalog: EncryptedSqlCatalog) -> None:
    plain: Any = catalog.create_table("hr.plain", ROWS.schema, properties={"format-version": "3"})
    plain.append(ROWS)
    number = plain.metadata.current_snapshot_id
    about = {"snapshot-id": number, "statistics-path": "file:///t/s.stats", "file-size-in-bytes": 9}
    blob = {"type": "some-new-type", "snapshot-id": number, "sequence-number": 1, "fields": [1]}
    file = V3StatisticsFile.model_validate({**about, "file-footer-size-in-bytes": 4, "blob-metadata": [blob]})
    plain.update_statistics().set_statistics(file).commit()
    (kept,) = catalog.load_table("hr.plain").metadata.statistics
    assert isinstance(kept, StatisticsFile)
    assert str(kept.blob_metadata[0].type) == "some-new-type"
    plain.transaction().apply((RemoveStatisticsUpdate.model_validate({"snapshot-id": number}),))
