"""Every snapshot of every table that others wrote has the rows that its writer read from it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from vectors.spelling import LINEAGE, canonical_row

from kit.tables import corpus, tables
from sealberg.errors import ConfigError, KeyNotFoundError, MissingLengthError, PlaintextFileError
from sealberg.files.file_io import EncryptingFileIO
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from pyiceberg.table import Table

ALL = {
    (name, snapshot["snapshot-id"]): snapshot
    for name, entry in corpus.TABLES.items()
    for snapshot in entry["snapshots"]
}
SNAPSHOTS = [key for key, snapshot in ALL.items() if snapshot["expect"] == "rows"]
WITH_ROWS = [name for name, entry in corpus.TABLES.items() if all(one["rows"] for one in entry["snapshots"])]


def counted(rows: list[dict[str, Any]], columns: dict[str, Any]) -> Counter[Any]:
    return Counter(canonical_row(row, columns) for row in rows)


@pytest.mark.parametrize(("table", "snapshot_id"), SNAPSHOTS)
def test_a_snapshot_has_the_rows_that_its_writer_read(table: str, snapshot_id: int) -> None:
    snapshot = ALL[table, snapshot_id]
    found = corpus.opened(table).scan(snapshot_id=snapshot_id, selected_fields=("*", *LINEAGE)).to_arrow()
    expected = corpus.expected(corpus.TABLES[table], snapshot)
    assert counted(found.to_pylist(), snapshot["columns"]) == counted(expected, snapshot["columns"])


@pytest.mark.parametrize(("table", "snapshot_id"), SNAPSHOTS)
def test_a_snapshot_has_as_many_rows_as_its_writer_counted(table: str, snapshot_id: int) -> None:
    scan = corpus.opened(table).scan(snapshot_id=snapshot_id)
    assert scan.count() == ALL[table, snapshot_id]["row-count"]


@pytest.mark.parametrize("table", WITH_ROWS)
def test_the_batch_reader_gives_the_same_rows_in_the_same_order(table: str) -> None:
    scan = corpus.opened(table).scan(selected_fields=("*", "_file", "_pos", *LINEAGE))
    read, whole = scan.to_arrow_batch_reader().read_all(), scan.to_arrow()
    assert (
        read.schema.names == whole.schema.names
    )  # as in PyIceberg, a reader has large types and a table those written
    assert read.cast(whole.schema).schema.equals(whole.schema, check_metadata=True)
    assert repr(read.to_pylist()) == repr(whole.to_pylist())  # as text, for NaN is not equal to itself


@pytest.mark.parametrize("table", WITH_ROWS)
def test_row_ids_tell_rows_apart(table: str) -> None:
    ids = corpus.opened(table).scan(selected_fields=("_row_id",)).to_arrow()["_row_id"]
    assert ids.null_count == 0
    assert len(ids.unique()) == len(ids)


@pytest.mark.parametrize("table", [name for name, entry in corpus.TABLES.items() if entry["refs"]])
def test_a_ref_leads_to_its_snapshot(table: str) -> None:
    for name, snapshot_id in corpus.TABLES[table]["refs"].items():
        scan = corpus.opened(table).scan().use_ref(name)
        assert scan.snapshot_id == snapshot_id


@pytest.mark.parametrize("table", [name for name, entry in corpus.TABLES.items() if entry["metadata-hash"]])
def test_our_form_of_the_metadata_has_the_hash_that_java_stored(table: str) -> None:
    metadata: Any = corpus.opened(table).metadata
    assert metadata.metadata_hash() == corpus.TABLES[table]["metadata-hash"]


# -- what other writers left ------------------------------------------------------------------------


def strictly(table: str) -> Table:
    """The table without the options that it needs, read by a process that has just begun."""
    cache.clear()
    return corpus.open_at(corpus.folder_of(corpus.TABLES[table]), corpus.TABLES[table], {})


def test_plaintext_manifests_of_java_1_11_are_read_only_where_that_is_allowed() -> None:
    entry = corpus.TABLES["old_plaintext_manifests"]
    before, rewritten = entry["snapshots"][-2:]
    table = strictly(entry["name"])
    assert table.scan(snapshot_id=before["snapshot-id"]).count() == 9
    with pytest.raises(PlaintextFileError, match=r"optimized-m-.*encryption\.allow-plaintext-files=true"):
        table.scan().to_arrow()
    assert corpus.opened(entry["name"]).scan().count() == rewritten["row-count"] == 9


@pytest.mark.parametrize("options", [{}, corpus.OPTIONS["plaintext-files"]])
def test_a_deletion_vector_whose_key_java_1_11_lost_is_named_and_older_snapshots_are_read(
    options: dict[str, str],
) -> None:
    entry = corpus.TABLES["old_lost_vectors"]
    table = corpus.open_at(corpus.folder_of(entry), entry, options)
    with pytest.raises(KeyNotFoundError, match=r"deletes\.puffin is encrypted and the table keeps no key for it"):
        table.scan().to_arrow()
    assert table.scan(snapshot_id=entry["snapshots"][0]["snapshot-id"]).count() == 5


def test_the_table_of_iceberg_rust_has_no_lengths_and_is_read_only_where_that_is_allowed() -> None:
    with pytest.raises(MissingLengthError, match=r"list\.avro.*encryption\.allow-missing-length=true"):
        strictly("rust").scan().to_arrow()
    assert corpus.opened("rust").scan().count() == 3
    with pytest.raises(MissingLengthError):  # what was read by leave of one is not kept for another
        corpus.open_at(corpus.folder_of(corpus.TABLES["rust"]), corpus.TABLES["rust"], {}).scan().to_arrow()


ALLOWED = {"encryption.allow-plaintext-files": "true", "encryption.allow-missing-length": "true"}
SCHEMA = pa.schema([("id", pa.int64())])


def allowed_by(table: Table) -> tuple[bool, bool]:
    assert isinstance(table.io, EncryptingFileIO)
    return table.io.allow_plaintext, table.io.allow_missing_length


def test_a_catalog_allows_what_its_own_properties_allow_and_no_table_allows_itself(tmp_path: Path) -> None:
    with tables.sealed_catalog(tmp_path / "one") as strict:
        with pytest.raises(ConfigError, match="is not a property of tables"):
            tables.make(strict, SCHEMA, **ALLOWED)
        made = tables.make(strict, SCHEMA)
        said = Path(made.metadata_location.removeprefix("file://"))
        edited = json.loads(said.read_text())
        edited["properties"] |= ALLOWED  # as whoever writes metadata.json can
        (said.parent / "v9.metadata.json").write_text(json.dumps(edited))
        strict.register_table("hr.edited", f"file://{said.parent}/v9.metadata.json")
        assert allowed_by(strict.load_table("hr.edited")) == (False, False)
        with pytest.raises(PlaintextFileError):
            made.io.new_input(f"file://{corpus.VECTORS / 'README.md'}").open()
    with tables.sealed_catalog(tmp_path / "two", **ALLOWED) as lenient:
        assert allowed_by(lenient.load_table(tables.make(lenient, SCHEMA).name())) == (True, True)


def test_an_encrypted_parquet_file_without_a_key_is_not_called_plaintext(tmp_path: Path) -> None:
    with tables.sealed_catalog(tmp_path) as catalog:
        made = tables.make(catalog, SCHEMA)
        made.append(pa.table({"id": [1]}))
        (file,) = tables.data_files(made)
        with pytest.raises(KeyNotFoundError, match=r"\.parquet is encrypted and the table keeps no key"):
            made.io.new_input(str(file.file_path)).open()
