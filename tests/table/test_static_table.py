"""Tables opened by their metadata.json alone: what is checked, what is refused, and what they do not show."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField

import sealberg
from kit.tables import golden
from kit.tables.small_tables import KMS, SmallTable
from sealberg.errors import ConfigError, FormatError, IntegrityError, KeyNotFoundError, UnsupportedError, WrongKeyError
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.table.base import EncryptedTable
from sealberg.table.files_table import REDACTED

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
ROWS = [{"id": 1}, {"id": 2}, {"id": 3}]


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    made = SmallTable(tmp_path, SCHEMA)
    one = made.parquet(ROWS)
    made.snapshot(one)
    made.snapshot(made.vector({one: [1]}))
    return made


def altered(small: SmallTable, **changes: Any) -> str:
    return small.write_metadata(small.metadata.model_copy(update=changes))


def test_a_table_opens_at_any_of_its_snapshots(small: SmallTable) -> None:
    table = sealberg.open_table(small.write_metadata(), KMS, expected_key_id="keyA")
    assert isinstance(table, EncryptedTable)
    assert table.scan().to_arrow().to_pylist() == [ROWS[0], ROWS[2]]
    assert table.scan(snapshot_id=1000).to_arrow().to_pylist() == ROWS
    assert table.scan(selected_fields=("id", "_row_id")).select("_row_id").to_arrow().to_pylist() == [
        {"_row_id": 0},
        {"_row_id": 2},
    ]


@pytest.mark.parametrize("suffix", [".metadata.json", ".gz.metadata.json", ".metadata.json.gz"])
def test_compressed_metadata_are_recognised_whatever_their_name(small: SmallTable, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"v1{suffix}"
    path.write_bytes(gzip.compress(small.metadata.to_json().encode()))
    assert sealberg.open_table(f"file://{path}", KMS).scan().count() == 2


def test_a_ref_is_read_by_its_name() -> None:
    for name in golden.TABLES:
        newest = sorted((golden.root() / "wh/db.db" / name / "metadata").glob("*metadata.json"))[-1]
        where = {golden.PREFIX: f"file://{golden.root() / 'wh'}"}
        table = sealberg.open_table(f"file://{newest}", KMS, relocate=where)
        for ref, at in table.metadata.refs.items():
            scan = table.scan().use_ref(ref)
            assert scan.snapshot_id == at.snapshot_id
            assert scan.count() == table.scan(snapshot_id=at.snapshot_id).count()
    with pytest.raises(ValueError, match="unknown ref"):
        table.scan().use_ref("nowhere")


# -- trust ------------------------------------------------------------------------------------


def test_another_master_key_than_expected_is_refused(small: SmallTable) -> None:
    with pytest.raises(IntegrityError, match=r"encryption\.key-id is keyA, expected keyB"):
        sealberg.open_table(small.write_metadata(), KMS, expected_key_id="keyB")


def test_a_table_that_should_be_encrypted_and_is_not_is_refused(tmp_path: Path) -> None:
    plain = SmallTable(tmp_path, SCHEMA, encrypted=False)
    plain.snapshot(plain.parquet(ROWS))
    assert sealberg.open_table(plain.write_metadata()).scan().count() == 3
    with pytest.raises(IntegrityError, match="is None, expected keyA"):
        sealberg.open_table(plain.write_metadata(), expected_key_id="keyA")


@pytest.mark.parametrize("also", ["keys", "nothing"])
def test_a_table_whose_key_id_was_taken_away_is_refused(small: SmallTable, also: str) -> None:
    changes: dict[str, Any] = {"properties": {}}
    if also == "keys":
        changes["encryption_keys"] = V3TableMetadata.model_fields["encryption_keys"].get_default(
            call_default_factory=True
        )
    with pytest.raises(IntegrityError, match="the property is never removed"):
        sealberg.open_table(altered(small, **changes), KMS)


def test_a_key_id_that_does_not_fit_opens_nothing(small: SmallTable) -> None:
    location = altered(small, properties={"encryption.key-id": "keyB"})
    with pytest.raises(IntegrityError, match="is wrapped by the master key keyA, expected keyB"):
        sealberg.open_table(location, KMS).scan().to_arrow()


def test_without_a_kms_the_table_opens_and_its_rows_do_not(small: SmallTable) -> None:
    table = sealberg.open_table(small.write_metadata())
    assert table.schema() == SCHEMA
    with pytest.raises(ConfigError, match=r"encryption\.kms-type"):
        table.scan().to_arrow()


def test_a_kms_client_can_be_given(small: SmallTable) -> None:
    class Refusing(type(small.manager.kms)):  # type: ignore[misc]
        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            raise KeyNotFoundError("no such key", key_id=master_key_id)

    from sealberg.table.static_table import open_table

    table = open_table(small.write_metadata(), KMS, kms=Refusing.from_properties({}))
    with pytest.raises((KeyNotFoundError, WrongKeyError), match="no such key"):
        table.scan().to_arrow()


def test_properties_in_storage_do_not_choose_how_files_are_read(small: SmallTable) -> None:
    evil = {**small.metadata.properties, "py-io-impl": "pathlib.Path", "s3.endpoint": "http://elsewhere"}
    table = sealberg.open_table(altered(small, properties=evil), KMS)
    assert table.scan().count() == 2
    assert table.io.properties == KMS


# -- not for writing --------------------------------------------------------------------------


def test_a_table_without_a_catalog_is_for_reading(small: SmallTable) -> None:
    table = small.table()
    before = sorted(small.folder.iterdir())
    rows = pa.table({"id": pa.array([4], pa.int64())})
    for act in (
        lambda: table.append(rows),
        lambda: table.overwrite(rows),
        lambda: table.delete("id = 1"),
        table.transaction,
        lambda: table.update_schema().add_column("more", LongType()).commit(),
        lambda: table.manage_snapshots().create_tag(1000, "tag").commit(),
    ):
        with pytest.raises(UnsupportedError, match="for reading only"):
            act()
    with pytest.raises(UnsupportedError, match="one version of a table"):
        table.refresh()
    assert sorted(small.folder.iterdir()) == before


def test_engines_that_would_open_files_themselves_are_refused(small: SmallTable) -> None:
    table = small.table()
    for act in (table.to_daft, table.to_bodo, table.__datafusion_table_provider__):
        with pytest.raises(UnsupportedError, match="has no keys"):
            act()


# -- others -----------------------------------------------------------------------------------


def test_tables_of_version_2_are_pyicebergs(tmp_path: Path) -> None:
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    made = catalog.create_table("n.t", schema=SCHEMA)
    made.append(pa.Table.from_pylist(ROWS, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])))
    table = sealberg.open_table(made.metadata_location)
    assert isinstance(table, StaticTable)
    assert table.scan().to_arrow().to_pylist() == ROWS
    with pytest.raises(IntegrityError, match="version 2 tables are not encrypted"):
        sealberg.open_table(made.metadata_location, expected_key_id="keyA")
    catalog.close()


@pytest.mark.parametrize("content", [b"", b"[]", b'"x"', b"{", b"\x1f\x8bnot gzip", b"\xff\xfe"])
def test_what_is_no_metadata_is_a_format_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.metadata.json"
    path.write_bytes(content)
    with pytest.raises(FormatError):
        sealberg.open_table(f"file://{path}")


def test_metadata_without_most_of_it_are_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "x.metadata.json"
    path.write_text(json.dumps({"format-version": 3}))
    with pytest.raises(FormatError):
        sealberg.open_table(f"file://{path}")


# -- what is shown ----------------------------------------------------------------------------


def test_inspect_shows_that_files_have_keys_and_not_which(small: SmallTable) -> None:
    table = small.table()
    secrets = [manifest.key_metadata for manifest in small.manifests]
    for manifest in small.manifests:
        entries = manifest.fetch_manifest_entry(table.io)
        secrets += [entry.data_file.key_metadata for entry in entries]
    inspect = table.inspect
    shown = [
        inspect.entries(),
        inspect.entries(1000),
        inspect.files(),
        inspect.data_files(),
        inspect.delete_files(),
        inspect.all_files(),
        inspect.all_data_files(),
        inspect.all_delete_files(),
        inspect.all_manifests(),
        inspect.manifests(),
        inspect.snapshots(),
        inspect.partitions(),
        inspect.refs(),
        inspect.history(),
        inspect.metadata_log_entries(),
    ]
    text = repr([one.to_pylist() for one in shown])
    for secret in secrets:
        assert secret is not None
        assert repr(secret)[2:20] not in text
    assert inspect.files()["key_metadata"].to_pylist() == [REDACTED, REDACTED]
    assert inspect.entries()["data_file"].to_pylist()[0]["key_metadata"] == REDACTED
    assert set(inspect.all_manifests()["key_metadata"].to_pylist()) == {REDACTED}


def test_inspect_shows_no_key_where_there_is_none(tmp_path: Path) -> None:
    plain = SmallTable(tmp_path, SCHEMA, encrypted=False)
    plain.snapshot(plain.parquet(ROWS))
    assert plain.table().inspect.files()["key_metadata"].to_pylist() == [None]


def test_importing_the_name_imports_no_pyiceberg() -> None:
    code = "import sys, sealberg; 'open_table' in dir(sealberg); assert 'pyiceberg' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rows_go_to_pandas_polars_and_duckdb_as_they_are(small: SmallTable) -> None:
    scan = small.table().scan(selected_fields=("id", "_row_id"))
    expected = [(1, 0), (3, 2)]
    pytest.importorskip("pandas")
    assert list(scan.to_pandas().itertuples(index=False, name=None)) == expected
    pytest.importorskip("duckdb")
    assert scan.to_duckdb("rows").execute("select id, _row_id from rows order by id").fetchall() == expected
    pytest.importorskip("polars")
    assert scan.to_polars().rows() == expected
    assert small.table().to_polars().collect().rows() == [(1,), (3,)]
