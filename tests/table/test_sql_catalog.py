"""SQL catalogs on SQLite and PostgreSQL: create, rules, rename, drop, purge, register, and plain tables as before."""

from __future__ import annotations

import gzip
import pickle
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssignUUIDUpdate,
    RemovePropertiesUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import GeographyType, GeometryType, ListType, LongType, NestedField, StringType
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

import sealberg
from kit import postgres
from kit.postgres import KEY_ID, MEMORY_KMS
from sealberg.errors import ConfigError, PlaintextFileError, TrustError, UnsupportedError
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from kit.postgres import Database
    from sealberg.table.catalogs.sql import SealedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures

ENCRYPTED = {"encryption.key-id": KEY_ID}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


def make(catalog: SealedSql, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def magics(database: Database) -> set[bytes]:
    """How the files of the tables begin, metadata aside."""
    return {Path(path).read_bytes()[:4] for path in database.files() if not path.endswith(".metadata.json")}


def query(catalog: SealedSql, statement: str, **values: Any) -> list[Any]:
    with Session(catalog.engine) as session:
        done = session.execute(text(statement), values)
        found = [tuple(row) for row in done] if done.returns_rows else []  # type: ignore[attr-defined]
        session.commit()
    return found


# -- create -----------------------------------------------------------------------------------


def test_a_key_id_makes_an_encrypted_version_3_table(catalog: SealedSql, database: Database) -> None:
    table = make(catalog)
    table.append(ROWS)
    again = catalog.load_table("db.t")
    assert isinstance(again, CatalogTable)
    assert again.format_version == 3
    assert rows_of(again) == [1, 2, 3]
    assert magics(database) == {b"AGS1", b"PARE"}


@pytest.mark.parametrize("version", ["1", "2"])
def test_an_explicit_lower_version_is_refused_in_the_words_of_java(
    catalog: SealedSql, database: Database, version: str
) -> None:
    words = rf"^Invalid properties for v{version}: \[encryption.key-id, encryption.data-key-length\]$"
    with pytest.raises(ConfigError, match=words):
        make(catalog, **{"format-version": version, "encryption.data-key-length": "16"})
    with pytest.raises(ConfigError, match=rf"^Invalid properties for v{version}: \[encryption.key-id\]$"):
        make(catalog, **{"format-version": version})
    assert not catalog.table_exists("db.t")
    assert not database.files()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"encryption.data-key-length": "17"}, "Invalid data key length: 17"),
        ({"encryption.data-key-length": "long"}, "must be a whole number"),
        ({"encryption.key-id": ""}, "encryption.key-id is empty"),
        ({"format-version": "4"}, "Unsupported format version: v4"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_before_anything_is_written(
    catalog: SealedSql, database: Database, properties: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        make(catalog, **properties)
    with pytest.raises(ConfigError, match=words):
        catalog.create_table_transaction("db.t", ROWS.schema, properties={**ENCRYPTED, **properties})
    assert not database.files()
    assert query(catalog, "SELECT table_name FROM iceberg_tables") == []


@pytest.mark.parametrize("kind", [GeometryType(), GeographyType(), ListType(3, GeometryType(), element_required=False)])
def test_types_that_cannot_be_written_are_refused_when_declared(
    catalog: SealedSql, database: Database, kind: Any
) -> None:
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "where", kind, required=False))
    with pytest.raises(UnsupportedError, match="column where"):
        catalog.create_table("db.t", schema, properties=ENCRYPTED)
    assert not database.files()
    table = make(catalog)
    with pytest.raises(UnsupportedError, match="column where"), table.update_schema() as update:
        update.add_column("where", kind)
    assert len(catalog.load_table("db.t").schema().fields) == 2


def test_a_table_is_made_once_and_the_second_attempt_leaves_no_file(catalog: SealedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    before = database.files()
    with pytest.raises(TableAlreadyExistsError):
        make(catalog)
    assert database.files() == before
    assert rows_of(catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=ENCRYPTED)) == [1, 2, 3]
    assert database.files() == before
    assert isinstance(catalog.create_table_if_not_exists("db.new", ROWS.schema, properties=ENCRYPTED), CatalogTable)


def test_no_namespace_no_table(catalog: SealedSql, database: Database) -> None:
    with pytest.raises(NoSuchNamespaceError):
        make(catalog, "nowhere.t")
    assert not database.files()


def test_the_key_length_of_the_table_is_the_length_of_its_keys(catalog: SealedSql) -> None:
    table = make(catalog, **{"encryption.data-key-length": "32"})
    table.append(ROWS)
    head = table.current_snapshot()
    assert head is not None
    assert len(table.io.open_list_key(head.key_id).encryption_key) == 32
    trusted = catalog.trusted("db.t")
    assert trusted is not None
    assert (trusted.key_id, trusted.key_length) == (KEY_ID, "32")


# -- create in a transaction ------------------------------------------------------------------


def test_nothing_is_seen_of_a_table_before_its_transaction_commits_and_all_of_it_after(
    catalog: SealedSql, database: Database
) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    with catalog.create_table_transaction("db.t", SCHEMA, partition_spec=spec, properties=ENCRYPTED) as transaction:
        transaction.append(ROWS)
        with transaction.update_schema() as update:
            update.add_column("more", LongType())
        transaction.append(ROWS.append_column("more", pa.array([7, 8, 9], pa.int64())))
        transaction.set_properties(owner="me")
        assert not catalog.table_exists("db.t")
        assert query(catalog, "SELECT table_name FROM iceberg_tables") == []
        assert query(catalog, "SELECT table_name FROM sealberg_trust") == []
        assert not any(path.endswith(".metadata.json") for path in database.files())
    table = catalog.load_table("db.t")
    assert rows_of(table) == [1, 1, 2, 2, 3, 3]
    assert sorted(table.scan().to_arrow()["more"].to_pylist(), key=str) == [7, 8, 9, None, None, None]
    assert len(table.metadata.snapshots) == 2
    assert table.properties["owner"] == "me"
    assert sum(path.endswith(".metadata.json") for path in database.files()) == 1
    table.append(ROWS.append_column("more", pa.array([7, 8, 9], pa.int64())))
    assert len(rows_of(catalog.load_table("db.t"))) == 9


def test_an_empty_create_transaction_creates_an_empty_table_that_is_given_back(catalog: SealedSql) -> None:
    transaction = catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED)
    table = transaction.commit_transaction()
    assert transaction.commit_transaction() is table
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_of_two_create_transactions_one_wins_and_the_other_leaves_nothing(
    catalog: SealedSql, database: Database
) -> None:
    late = catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED)
    late.append(ROWS)
    make(catalog)
    before = database.files()
    with pytest.raises(TableAlreadyExistsError):
        late.commit_transaction()
    assert len(before - database.files()) == 3  # its data file, manifest and list
    assert not database.files() - before
    with pytest.raises(RuntimeError, match="cannot be reused"):
        late.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == []


def test_a_create_transaction_that_is_left_with_an_error_leaves_nothing(catalog: SealedSql, database: Database) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED) as transaction,
    ):
        transaction.append(ROWS)
        assert database.files()
        raise ZeroDivisionError
    assert not database.files()
    assert not catalog.table_exists("db.t")


# -- tables that are not encrypted ------------------------------------------------------------


@pytest.mark.parametrize("version", [None, "1", "2"])
def test_plain_tables_are_those_of_pyiceberg(catalog: SealedSql, version: str | None) -> None:
    properties = {"format-version": version} if version else {}
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    assert type(table) is Table
    assert table.format_version == int(version or 2)
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("more", LongType())
    table.delete("id = 2")
    again = catalog.load_table("db.t")
    assert type(again) is Table
    assert again.scan().to_arrow()["more"].to_pylist() == [None, None]
    assert rows_of(again) == [1, 3]
    renamed = catalog.rename_table("db.t", "db.u")
    assert rows_of(renamed) == [1, 3]
    catalog.purge_table("db.u")
    assert not catalog.table_exists("db.u")


def test_what_pyiceberg_writes_in_the_same_database_is_read_and_the_other_way_round(
    catalog: SealedSql, database: Database
) -> None:
    plain = SqlCatalog("test", **database.properties)
    try:
        plain.create_table("db.theirs", ROWS.schema).append(ROWS)
        catalog.create_table("db.ours", ROWS.schema).append(ROWS)
        assert rows_of(catalog.load_table("db.theirs")) == rows_of(plain.load_table("db.ours")) == [1, 2, 3]
        assert sorted(catalog.list_tables("db")) == sorted(plain.list_tables("db"))
    finally:
        plain.close()


def test_a_create_transaction_of_a_plain_table_is_that_of_pyiceberg(catalog: SealedSql) -> None:
    with catalog.create_table_transaction("db.t", SCHEMA) as transaction:
        transaction.append(ROWS)
    assert type(catalog.load_table("db.t")) is Table
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_unencrypted_version_3_tables_are_written_and_read_and_need_no_trust(
    catalog: SealedSql, database: Database
) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    table.append(ROWS)
    table.delete("id = 2")
    table.append(ROWS)
    again = catalog.load_table("db.t")
    assert again.format_version == 3
    assert rows_of(again) == [1, 1, 2, 3, 3]
    assert len(set(again.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist())) == 5
    assert catalog.trusted("db.t") is None
    assert magics(database) == {b"Obj\x01", b"PAR1"}
    catalog.purge_table("db.t")
    assert not database.files()


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_key_id_is_not_added_later_whoever_commits_it(catalog: SealedSql, version: str) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": version})
    words = "^Cannot modify key ID of an encrypted table$"
    with pytest.raises(ConfigError, match=words), table.transaction() as transaction:
        transaction.set_properties(ENCRYPTED)
    with pytest.raises(ConfigError, match=words):
        catalog.commit_table(table, (), (SetPropertiesUpdate(updates=ENCRYPTED),))
    assert KEY_ID not in catalog.load_table("db.t").properties.values()


# -- key id and key length --------------------------------------------------------------------

CHANGES = [
    (SetPropertiesUpdate(updates={"encryption.key-id": "other"}), "Cannot modify key ID of an encrypted table"),
    (RemovePropertiesUpdate(removals=["encryption.key-id"]), "Cannot remove key ID from an encrypted table"),
    (
        SetPropertiesUpdate(updates={"encryption.data-key-length": "32"}),
        "Cannot modify encryption.data-key-length of an encrypted table",
    ),
    (
        RemovePropertiesUpdate(removals=["encryption.data-key-length"]),
        "Cannot modify encryption.data-key-length of an encrypted table",
    ),
    (AssignUUIDUpdate(uuid=uuid.UUID(int=1)), "Cannot reassign uuid"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
@pytest.mark.parametrize("by_hand", ["a table of ours", "a table of PyIceberg"])
def test_keys_are_fixed_for_updates_made_by_hand(
    catalog: SealedSql, database: Database, change: Any, words: str, by_hand: str
) -> None:
    table = make(catalog, **{"encryption.data-key-length": "16"})
    table.append(ROWS)
    before = database.files()
    if by_hand == "a table of PyIceberg":
        table = Table(table.name(), table.metadata, table.metadata_location, PyArrowFileIO(), catalog)
    with pytest.raises(ConfigError, match=words):
        catalog.commit_table(table, (), (change,))
    assert database.files() == before
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_keys_are_fixed_for_transactions_which_leave_no_file(catalog: SealedSql, database: Database) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = database.files()
    with pytest.raises(ConfigError, match=r"^Cannot modify key ID"), table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.set_properties({"encryption.key-id": "other"})
    with pytest.raises(ConfigError, match=r"^Cannot remove key ID"), table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.remove_properties("encryption.key-id")
    assert database.files() == before
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_the_same_key_id_set_again_is_no_change(catalog: SealedSql) -> None:
    table = make(catalog)
    with table.transaction() as transaction:
        transaction.set_properties({**ENCRYPTED, "owner": "me"})
    assert catalog.load_table("db.t").properties["owner"] == "me"


def test_a_snapshot_without_a_key_does_not_enter_an_encrypted_table(catalog: SealedSql) -> None:
    table = make(catalog)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": 7,
            "sequence-number": 1,
            "manifest-list": "file:///elsewhere/list.avro",
            "summary": Summary(Operation.APPEND),
            "schema-id": 0,
            "first-row-id": 0,
            "added-rows": 0,
        }
    )
    with pytest.raises(PlaintextFileError, match="snapshot 7 has no key-id"):
        catalog.commit_table(table, (), (AddSnapshotUpdate(snapshot=snapshot),))
    assert not catalog.load_table("db.t").metadata.snapshots


# -- rename, drop, purge, register ------------------------------------------------------------


def test_rename_takes_trust_along(catalog: SealedSql) -> None:
    make(catalog).append(ROWS)
    before = catalog.trusted("db.t")
    renamed = catalog.rename_table("db.t", "db.u")
    assert rows_of(renamed) == [1, 2, 3]
    assert catalog.trusted("db.u") == before
    assert query(catalog, "SELECT table_name FROM sealberg_trust") == [("u",)]
    renamed.append(ROWS)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.t")
    assert len(rows_of(catalog.rename_table("db.u", "db.u"))) == 6  # to itself


def test_a_refused_rename_moves_neither_pointer_nor_trust(catalog: SealedSql) -> None:
    make(catalog, "db.a").append(ROWS)
    make(catalog, "db.b")
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table("db.a", "db.b")
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table("db.a", "nowhere.b")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("db.c", "db.d")
    assert rows_of(catalog.load_table("db.a")) == [1, 2, 3]
    assert rows_of(catalog.load_table("db.b")) == []


def test_a_name_that_another_tool_freed_can_be_used_again(catalog: SealedSql, database: Database) -> None:
    make(catalog, "db.a").append(ROWS)
    make(catalog, "db.b")
    plain = SqlCatalog("test", **database.properties)
    plain.drop_table("db.b")  # the row of trust stays behind
    plain.close()
    assert rows_of(catalog.rename_table("db.a", "db.b")) == [1, 2, 3]
    make(catalog, "db.a")


def test_drop_takes_trust_along_and_leaves_the_files(catalog: SealedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    files = database.files()
    catalog.drop_table("db.t")
    assert query(catalog, "SELECT * FROM sealberg_trust") == []
    assert database.files() == files
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("db.t")


def test_purge_deletes_every_file_that_the_metadata_name(catalog: SealedSql, database: Database) -> None:
    table = make(catalog, **{"write.delete.mode": "merge-on-read"})
    for _ in range(3):
        table.append(ROWS)
    table.delete("id = 2")
    table.overwrite(ROWS, "id = 1")
    other = make(catalog, "db.other")
    other.append(ROWS)
    assert any(path.endswith(".puffin") for path in database.files())
    catalog.purge_table("db.t")
    assert not [path for path in database.files() if "/t/" in path]
    assert not catalog.table_exists("db.t")
    assert rows_of(catalog.load_table("db.other")) == [1, 2, 3]


def test_purge_without_the_key_still_deletes_what_it_knows(catalog: SealedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    with database.catalog(**{"encryption.kms.memory.key.hr": "cd" * 16}) as keyless:
        keyless.purge_table("db.t")
    left = {path.rpartition("/")[2].partition("-")[0] for path in database.files()}
    assert "snap" not in left  # the list and the metadata are gone; what only the list named stays
    assert not any(path.endswith(".metadata.json") for path in database.files())


def test_register_vouches_for_what_is_there(catalog: SealedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    place = table.metadata_location
    catalog.drop_table("db.t")
    again = catalog.register_table("db.again", place)
    assert rows_of(again) == [1, 2, 3]
    again.append(ROWS)
    assert len(rows_of(catalog.load_table("db.again"))) == 6
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.again", place)
    with pytest.raises(NoSuchNamespaceError):
        catalog.register_table("nowhere.t", place)


def test_register_over_a_table_is_for_the_same_keys_only(catalog: SealedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    first = table.metadata_location
    table.append(ROWS)
    assert rows_of(catalog.register_table("db.t", first, overwrite=True)) == [1, 2, 3]
    plain = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    with pytest.raises(TrustError, match="is not encrypted"):
        catalog.register_table("db.t", plain.metadata_location, overwrite=True)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_metadata_without_their_key_id_are_not_registered(catalog: SealedSql, tmp_path: Path) -> None:
    table = make(catalog)
    table.append(ROWS)
    stripped = table.metadata.model_copy(update={"properties": {}})
    place = tmp_path / "00000-x.metadata.json"
    place.write_text(stripped.to_json())
    with pytest.raises(TrustError, match="does not vouch"):
        catalog.register_table("db.stripped", str(place))
    assert catalog.list_tables("db") == [("db", "t")]


def test_compressed_metadata_are_loaded_and_committed_on(catalog: SealedSql, tmp_path: Path) -> None:
    table = make(catalog)
    table.append(ROWS)
    place = tmp_path / "00007-00000000-0000-0000-0000-000000000001.gz.metadata.json"
    place.write_bytes(gzip.compress(table.metadata.to_json().encode()))
    again = catalog.register_table("db.gz", f"file://{place}")
    again.append(ROWS)
    assert len(rows_of(catalog.load_table("db.gz"))) == 6
    assert catalog.load_table("db.gz").metadata_location.rpartition("/")[2].startswith("00008-")


def test_views_of_other_tools_are_no_tables(catalog: SealedSql) -> None:
    with Session(catalog.engine) as session:
        row = {"catalog_name": "test", "table_namespace": "db", "table_name": "view", "metadata_location": "file:///v"}
        session.execute(insert(IcebergTables).values(**row, iceberg_type="VIEW"))
        session.commit()
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.view")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("db.view")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("db.view", "db.other")
    assert query(catalog, "SELECT table_name FROM iceberg_tables") == [("view",)]


# -- catalogs as objects ----------------------------------------------------------------------


def test_destroy_tables_takes_trust_along(catalog: SealedSql) -> None:
    make(catalog)
    catalog.destroy_tables()
    catalog.create_tables()
    assert query(catalog, "SELECT * FROM sealberg_trust") == []
    assert query(catalog, "SELECT * FROM iceberg_tables") == []


def test_a_catalog_that_may_make_no_tables_says_which_one_it_misses(database: Database) -> None:
    SqlCatalog("test", **database.properties).close()
    with pytest.raises(ConfigError, match="sealberg_trust"):
        database.catalog(init_catalog_tables="false")
    database.catalog().close()
    database.catalog(init_catalog_tables="false").close()


def test_two_catalogs_in_one_database_do_not_see_each_other(database: Database, catalog: SealedSql) -> None:
    make(catalog).append(ROWS)
    with sealberg.load_catalog("other", **database.properties) as other:
        other.create_namespace("db")
        with pytest.raises(NoSuchTableError):
            other.load_table("db.t")
        other.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_nested_namespaces_keep_their_names(catalog: SealedSql) -> None:
    catalog.create_namespace("db.inner")
    table = catalog.create_table("db.inner.t", ROWS.schema, properties=ENCRYPTED)
    table.append(ROWS)
    assert catalog.load_table(("db", "inner", "t")).name() == ("db", "inner", "t")
    assert rows_of(catalog.rename_table("db.inner.t", "db.t")) == [1, 2, 3]


def test_a_closed_catalog_has_forgotten_its_keys_and_opens_again(catalog: SealedSql) -> None:
    make(catalog).append(ROWS)
    keks = catalog._keks
    assert len(keks) == 1
    catalog.close()
    assert len(keks) == 0
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_a_table_without_a_kms_can_be_looked_at_and_not_read(catalog: SealedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    bare = {name: value for name, value in database.properties.items() if name not in MEMORY_KMS}
    with sealberg.load_catalog("test", **bare) as looking:
        table = looking.load_table("db.t")
        assert len(table.metadata.snapshots) == 1
        with pytest.raises(ConfigError, match="without a key management client"):
            table.scan().to_arrow()


def test_what_pyiceberg_pickles_is_pickled_and_what_it_does_not_is_not(catalog: SealedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    assert pickle.loads(pickle.dumps(table.metadata)) == table.metadata
    io = pickle.loads(pickle.dumps(table.io))
    head = pickle.loads(pickle.dumps(table.metadata)).current_snapshot()
    (manifest,) = head.manifests(io)
    assert len(manifest.fetch_manifest_entry(io)) == 1
    assert b"ab" * 16 not in pickle.dumps(table.metadata)
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)):  # a database connection, as in PyIceberg
        pickle.dumps(catalog)
