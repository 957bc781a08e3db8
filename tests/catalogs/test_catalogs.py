"""What every catalog does with encrypted tables: create, rules, rename, drop, purge, register; plain ones as before."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssignUUIDUpdate, RemovePropertiesUpdate, SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import GeographyType, GeometryType, ListType, LongType, NestedField, StringType

from kit.servers.postgres import KEY_ID, MEMORY_KMS
from kit.tables import catalogs
from sealberg.errors import ConfigError, PlaintextFileError, PurgeRefusedError, UnsupportedError
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.plain_table import PlainTable

if TYPE_CHECKING:
    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

ENCRYPTED = {"encryption.key-id": KEY_ID}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


@pytest.fixture
def catalog(lake: Lake) -> Any:
    return lake.connect()


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


# -- create -----------------------------------------------------------------------------------


@pytest.mark.every_catalog
def test_a_key_id_makes_an_encrypted_version_3_table(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    for client in (catalog, lake.connect()):
        again = client.load_table("db.t")
        assert isinstance(again, CatalogTable)
        assert again.format_version == 3
        assert again.properties["encryption.key-id"] == KEY_ID
        assert rows_of(again) == [1, 2, 3]
    assert lake.magics() == {b"AGS1", b"PARE"}


def test_settings_that_cannot_be_right_are_refused_before_anything_is_written(catalog: Any, lake: Lake) -> None:
    wrong = [
        ({"format-version": "1"}, r"^Invalid properties for v1: \[encryption.key-id\]$"),
        ({"format-version": "2"}, r"^Invalid properties for v2: \[encryption.key-id\]$"),
        (
            {"format-version": "2", "encryption.data-key-length": "16"},
            r"^Invalid properties for v2: \[encryption.key-id, encryption.data-key-length\]$",
        ),
        ({"format-version": "4"}, "Unsupported format version: v4"),
        ({"encryption.data-key-length": "17"}, "Invalid data key length: 17"),
        ({"encryption.data-key-length": "long"}, "must be an integer"),
        ({"encryption.key-id": ""}, "encryption.key-id is empty"),
    ]
    for properties, words in wrong:
        with pytest.raises(ConfigError, match=words):
            make(catalog, **properties)
        with pytest.raises(ConfigError, match=words):
            catalog.create_table_transaction("db.t", ROWS.schema, properties={**ENCRYPTED, **properties})
    assert not lake.files()
    assert catalog.list_tables("db") == []


def test_types_that_cannot_be_written_are_refused_when_declared(catalog: Any, lake: Lake) -> None:
    kinds: list[Any] = [GeometryType(), GeographyType(), ListType(3, GeometryType(), element_required=False)]
    for kind in kinds:
        schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "where", kind, required=False))
        with pytest.raises(UnsupportedError, match="column where"):
            catalog.create_table("db.t", schema, properties=ENCRYPTED)
    assert not lake.files()
    table = make(catalog)
    for kind in kinds:
        with pytest.raises(UnsupportedError, match="column where"), table.update_schema() as update:
            update.add_column("where", kind)
    assert len(catalog.load_table("db.t").schema().fields) == 2


@pytest.mark.every_catalog
def test_a_table_is_made_once_and_the_second_attempt_leaves_no_file(catalog: Any, lake: Lake) -> None:
    make(catalog).append(ROWS)
    before = lake.files()
    with pytest.raises(TableAlreadyExistsError):
        make(catalog)
    assert lake.files() == before
    assert rows_of(catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=ENCRYPTED)) == [1, 2, 3]
    assert lake.files() == before
    assert isinstance(catalog.create_table_if_not_exists("db.new", ROWS.schema, properties=ENCRYPTED), CatalogTable)


def test_no_namespace_no_table(catalog: Any, lake: Lake) -> None:
    with pytest.raises(NoSuchNamespaceError):
        make(catalog, "nowhere.t")
    assert not lake.files()


def test_the_key_length_of_the_table_is_the_length_of_its_keys(catalog: Any) -> None:
    make(catalog, **{"encryption.data-key-length": "32"}).append(ROWS)
    table = catalog.load_table("db.t")
    assert len(table.io.open_list_key(table.current_snapshot().key_id).encryption_key) == 32


def test_a_location_of_ones_own_is_kept(catalog: Any, lake: Lake) -> None:
    place = f"file://{lake.warehouse}/elsewhere/mine"
    table = catalog.create_table("db.t", ROWS.schema, location=place, properties=ENCRYPTED)
    table.append(ROWS)
    assert catalog.load_table("db.t").location() == place
    assert all("/elsewhere/mine/" in path for path in lake.files())


# -- create in a transaction ------------------------------------------------------------------


@pytest.mark.every_catalog
def test_nothing_is_seen_of_a_table_before_its_transaction_commits_and_all_of_it_after(
    catalog: Any, lake: Lake
) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    with catalog.create_table_transaction("db.t", SCHEMA, partition_spec=spec, properties=ENCRYPTED) as transaction:
        transaction.append(ROWS)
        with transaction.update_schema() as update:
            update.add_column("more", LongType())
        transaction.append(ROWS.append_column("more", pa.array([7, 8, 9], pa.int64())))
        transaction.set_properties(owner="me")
        assert not catalog.table_exists("db.t")
        assert catalog.list_tables("db") == []
        assert not any(path.endswith(".metadata.json") for path in lake.files())
    table = lake.connect().load_table("db.t")
    assert rows_of(table) == [1, 1, 2, 2, 3, 3]
    assert sorted(table.scan().to_arrow()["more"].to_pylist(), key=str) == [7, 8, 9, None, None, None]
    assert [field.name for field in table.spec().fields] == ["name"]
    assert len(table.metadata.snapshots) == 2
    assert table.properties["owner"] == "me"
    assert lake.magics() == {b"AGS1", b"PARE"}
    assert sum(path.endswith(".metadata.json") for path in lake.files()) == 1
    table.append(ROWS.append_column("more", pa.array([7, 8, 9], pa.int64())))
    assert len(rows_of(catalog.load_table("db.t"))) == 9


def test_an_empty_create_transaction_creates_an_empty_table_that_is_given_back(catalog: Any) -> None:
    transaction = catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED)
    table = transaction.commit_transaction()
    assert transaction.commit_transaction() is table
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_of_two_create_transactions_one_wins_and_the_other_leaves_nothing(catalog: Any, lake: Lake) -> None:
    late = catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED)
    late.append(ROWS)
    make(catalog)
    before = lake.files()
    with pytest.raises(TableAlreadyExistsError):
        late.commit_transaction()
    assert len(before - lake.files()) == 3  # its data file, manifest and list
    assert not lake.files() - before
    with pytest.raises(RuntimeError, match="cannot be reused"):
        late.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == []


def test_a_create_transaction_that_is_left_with_an_error_leaves_nothing(catalog: Any, lake: Lake) -> None:
    with (
        pytest.raises(ZeroDivisionError),
        catalog.create_table_transaction("db.t", SCHEMA, properties=ENCRYPTED) as transaction,
    ):
        transaction.append(ROWS)
        assert lake.files()
        raise ZeroDivisionError
    assert not lake.files()
    assert not catalog.table_exists("db.t")


# -- tables that are not encrypted ------------------------------------------------------------


@pytest.mark.parametrize("version", [None, "1", "2"])
def test_plain_tables_are_those_of_pyiceberg(catalog: Any, version: str | None) -> None:
    properties = {"format-version": version} if version else {}
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    assert isinstance(table, PlainTable)
    assert table.format_version == int(version or 2)
    table.append(ROWS)
    with table.update_schema() as update:
        update.add_column("more", LongType())
    table.delete("id = 2")
    again = catalog.load_table("db.t")
    assert isinstance(again, PlainTable)
    assert again.scan().to_arrow()["more"].to_pylist() == [None, None]
    assert rows_of(again) == [1, 3]
    renamed = catalog.rename_table("db.t", "db.u")
    assert rows_of(renamed) == [1, 3]
    catalog.drop_table("db.u")
    assert not catalog.table_exists("db.u")


@pytest.mark.every_catalog
def test_what_pyiceberg_writes_is_read_and_the_other_way_round(catalog: Any, lake: Lake) -> None:
    plain = lake.plain()
    plain.create_table("db.theirs", ROWS.schema).append(ROWS)
    catalog.create_table("db.ours", ROWS.schema).append(ROWS)
    assert rows_of(catalog.load_table("db.theirs")) == rows_of(plain.load_table("db.ours")) == [1, 2, 3]
    assert sorted(catalog.list_tables("db")) == sorted(plain.list_tables("db")) == [("db", "ours"), ("db", "theirs")]


def test_a_create_transaction_of_a_plain_table_is_that_of_pyiceberg(catalog: Any) -> None:
    with catalog.create_table_transaction("db.t", SCHEMA) as transaction:
        transaction.append(ROWS)
    assert isinstance(catalog.load_table("db.t"), PlainTable)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_unencrypted_version_3_tables_are_written_and_read(catalog: Any, lake: Lake) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    table.append(ROWS)
    table.delete("id = 2")
    table.append(ROWS)
    again = lake.connect().load_table("db.t")
    assert again.format_version == 3
    assert rows_of(again) == [1, 1, 2, 3, 3]
    assert len(set(again.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist())) == 5
    assert lake.magics() == {b"Obj\x01", b"PAR1"}
    catalog.purge_table("db.t")
    assert not lake.files()


@pytest.mark.every_catalog
@pytest.mark.parametrize("version", ["2", "3"])
def test_a_key_id_is_not_added_later_whoever_commits_it(catalog: Any, version: str) -> None:
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": version})
    words = r"^Cannot set encryption\.key-id .* of a plaintext table: .* Create a new table with encryption\.key-id"
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


@pytest.mark.parametrize("by_hand", ["a table of ours", "a table of PyIceberg"])
def test_keys_are_fixed_for_updates_made_by_hand(catalog: Any, lake: Lake, by_hand: str) -> None:
    table = make(catalog, **{"encryption.data-key-length": "16"})
    table.append(ROWS)
    before = lake.files()
    if by_hand == "a table of PyIceberg":
        table = Table(table.name(), table.metadata, table.metadata_location, PyArrowFileIO(), catalog)
    for change, words in CHANGES:
        with pytest.raises(ConfigError, match=words):
            catalog.commit_table(table, (), (change,))
    assert lake.files() == before
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_keys_are_fixed_for_transactions_which_leave_no_file(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = lake.files()
    with pytest.raises(ConfigError, match=r"^Cannot modify key ID"), table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.set_properties({"encryption.key-id": "other"})
    with pytest.raises(ConfigError, match=r"^Cannot remove key ID"), table.transaction() as transaction:
        transaction.append(ROWS)
        transaction.remove_properties("encryption.key-id")
    assert lake.files() == before
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_the_same_key_id_set_again_is_no_change(catalog: Any) -> None:
    table = make(catalog)
    with table.transaction() as transaction:
        transaction.set_properties({**ENCRYPTED, "owner": "me"})
    assert catalog.load_table("db.t").properties["owner"] == "me"


def test_a_snapshot_without_a_key_does_not_enter_an_encrypted_table(catalog: Any) -> None:
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


@pytest.mark.every_catalog
def test_a_renamed_table_is_read_and_written_under_its_new_name(catalog: Any, lake: Lake) -> None:
    make(catalog).append(ROWS)
    renamed = catalog.rename_table("db.t", "db.u")
    assert rows_of(renamed) == [1, 2, 3]
    renamed.append(ROWS)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("db.t")
    assert len(rows_of(lake.connect().load_table("db.u"))) == 6


def test_a_refused_rename_moves_nothing(catalog: Any) -> None:
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


@pytest.mark.every_catalog
def test_drop_leaves_the_files_and_register_brings_the_table_back(catalog: Any, lake: Lake) -> None:
    table = make(catalog)
    table.append(ROWS)
    place, files = table.metadata_location, lake.files()
    catalog.drop_table("db.t")
    assert lake.files() == files
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("db.t")
    again = catalog.register_table("db.again", place)
    assert rows_of(again) == [1, 2, 3]
    again.append(ROWS)
    assert len(rows_of(lake.connect().load_table("db.again"))) == 6
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table("db.again", place)
    with pytest.raises(NoSuchNamespaceError):
        catalog.register_table("nowhere.t", place)


@pytest.mark.every_catalog
def test_purge_deletes_every_file_that_the_metadata_name(catalog: Any, lake: Lake) -> None:
    table = make(catalog, **{"write.delete.mode": "merge-on-read"})
    for _ in range(3):
        table.append(ROWS)
    table.delete("id = 2")
    table.overwrite(ROWS, "id = 1")
    other = make(catalog, "db.other")
    other.append(ROWS)
    assert any(path.endswith(".puffin") for path in lake.files())
    catalog.purge_table("db.t")
    assert not [path for path in lake.files() if "/t/" in path]
    assert not catalog.table_exists("db.t")
    assert rows_of(catalog.load_table("db.other")) == [1, 2, 3]


def test_purge_without_the_key_is_refused_and_the_table_stays(catalog: Any, lake: Lake) -> None:
    make(catalog).append(ROWS)
    files = lake.files()
    with pytest.raises(PurgeRefusedError, match="nothing was dropped: 1 manifest lists") as refused:
        lake.connect(**{"encryption.kms.memory.key.hr": "cd" * 16}).purge_table("db.t")
    snapshot = catalog.load_table("db.t").metadata.snapshots[0]
    assert refused.value.files == (snapshot.manifest_list,)
    assert snapshot.key_id in str(refused.value)
    assert lake.files() == files
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]
    catalog.purge_table("db.t")
    assert not lake.files()


# -- clients ----------------------------------------------------------------------------------


def test_a_table_without_a_kms_can_be_looked_at_and_not_read(catalog: Any, lake: Lake) -> None:
    make(catalog).append(ROWS)
    table = lake.without(*MEMORY_KMS).load_table("db.t")
    assert len(table.metadata.snapshots) == 1
    with pytest.raises(ConfigError, match="without a key management client"):
        table.scan().to_arrow()


def test_a_closed_catalog_has_forgotten_its_keys_and_opens_again(catalog: Any) -> None:
    make(catalog).append(ROWS)
    keks = catalog._keks
    assert len(keks) == 1
    catalog.close()
    assert len(keks) == 0
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]
