"""What a catalog's configuration demands: a key for new tables, encryption wherever it is required, expected keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.table.update import SetPropertiesUpdate

import sealberg
from kit.servers.postgres import MEMORY_KMS
from kit.tables import catalogs
from sealberg.errors import ConfigError, EncryptionRequiredError, KeyNotFoundError, TrustError, UnsupportedError
from sealberg.keys.kms.memory import MemoryKms
from sealberg.table.policy import EncryptionPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

ROWS: Final = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
KEY: Final = {"encryption.key-id": "hr"}
OTHER: Final = {"encryption.kms.memory.key.finance": "11" * 16}
V3: Final = {"format-version": "3"}


def key_of(table: Any) -> tuple[int, str | None]:
    return table.format_version, table.properties.get("encryption.key-id")


# -- the key of new tables --------------------------------------------------------------------


def test_a_new_table_gets_the_key_of_the_configuration(lake: Lake) -> None:
    catalog = lake.connect(**OTHER, **{"encryption.default-key-id": "hr", "encryption.default-key-id.db": "finance"})
    catalog.create_namespace("other")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    catalog.create_table("other.t", ROWS.schema).append(ROWS)
    with catalog.create_table_transaction("db.u", ROWS.schema, properties=V3) as transaction:
        transaction.append(ROWS)
    catalog.create_table("db.v", ROWS.schema, properties=KEY).append(ROWS)
    found = {name: key_of(lake.connect(**OTHER).load_table(name)) for name in ("db.t", "other.t", "db.u", "db.v")}
    assert found == {"db.t": (3, "finance"), "other.t": (3, "hr"), "db.u": (3, "finance"), "db.v": (3, "hr")}
    assert lake.magics() == {b"AGS1", b"PARE"}
    words = (
        r"format version 2: encryption\.default-key-id\.db of the catalog says that it is encrypted under .* finance"
    )
    with pytest.raises(ConfigError, match=words):
        catalog.create_table("db.w", ROWS.schema, properties={"format-version": "2"})
    catalog.drop_table("other.t")
    catalog.drop_namespace("other")


def test_a_plaintext_table_in_a_catalog_with_a_kms_is_told(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    catalog = lake.connect()
    catalog.create_table("db.t", ROWS.schema)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sum("the new table db.t is not encrypted" in each and "encryption.required" in each for each in told) == 1
    caplog.clear()
    catalog.create_table("db.u", ROWS.schema, properties=KEY)
    assert not [each for each in caplog.records if "not encrypted" in each.getMessage()]


def test_a_namespace_has_a_key_for_its_tables(lake: Lake) -> None:
    catalog = lake.connect(**{"table-default.encryption.key-id": "hr", "table-default.team.color": "red"})
    made = catalog.create_table("db.first", ROWS.schema)
    assert (*key_of(made), made.properties["team.color"]) == (3, "hr", "red")
    with pytest.raises(ConfigError, match=r"the namespace sealed has encryption\.keyid, which is not a property"):
        catalog.create_namespace("sealed", {"encryption.keyid": "finance"})
    catalog.create_namespace("sealed", {"encryption.key-id": "finance"})
    try:
        with pytest.raises(ConfigError, match=r"the namespace sealed has encryption\.required"):
            catalog.update_namespace_properties("sealed", updates={"encryption.required": "false"})
        if lake.kind == "rest":  # what the server says of a namespace is not obeyed, and not passed over
            with pytest.raises(ConfigError, match=r"may not choose the key .* encryption\.default-key-id\.sealed"):
                catalog.create_table("sealed.t", ROWS.schema)
        else:
            with pytest.raises(KeyNotFoundError, match="wrapping key finance is not found; existing keys: hr"):
                catalog.create_table("sealed.t", ROWS.schema)
            assert key_of(lake.connect(**OTHER).create_table("sealed.t", ROWS.schema)) == (3, "finance")
        nearer = lake.connect(**{"encryption.default-key-id.sealed": "hr"})
        assert key_of(nearer.create_table("sealed.u", ROWS.schema)) == (3, "hr")
        assert key_of(catalog.create_table("sealed.v", ROWS.schema, properties=KEY)) == (3, "hr")
    finally:
        for name in catalog.list_tables("sealed"):
            catalog.drop_table(name)
        catalog.drop_namespace("sealed")


def test_an_override_of_the_configuration_stands_against_the_creator_and_exchanges_no_key(tmp_path: Path) -> None:
    override = {"table-override.team.color": "red", "table-override.encryption.key-id": "hr"}
    with sealberg.load_catalog("m", type="in-memory", warehouse=f"file://{tmp_path}", **MEMORY_KMS, **override) as made:
        made.create_namespace("db")
        table = made.create_table("db.t", ROWS.schema, properties={"team.color": "blue"})
        assert (*key_of(table), table.properties["team.color"]) == (3, "hr", "red")
        with pytest.raises(ConfigError, match=r"cannot have the encryption\.key-id finance: table-override"):
            made.create_table("db.u", ROWS.schema, properties={"encryption.key-id": "finance"})


def test_the_nearest_namespace_decides_and_case_does_not() -> None:
    policy = EncryptionPolicy.of(
        {
            "encryption.default-key-id": "all",
            "encryption.default-key-id.hr": "hr",
            "encryption.default-key-id.hr.pay.old": "old",
            "table-default.format-version": "2",
        }
    )
    own: dict[tuple[str, ...], str] = {("hr", "pay"): "pay"}
    chosen = {
        ("x", "t"): "all",
        ("HR", "t"): "hr",
        ("hr", "pay", "t"): "pay",
        ("hr", "pay", "old", "t"): "old",
        ("hr", "pay", "new", "t"): "pay",
        ("hrx", "t"): "all",
    }
    for name, key_id in chosen.items():
        assert policy.properties_of_new(name, {}, _getter(own)) == {"encryption.key-id": key_id}, name


def _getter(own: dict[tuple[str, ...], str]) -> Callable[[tuple[str, ...]], str | None]:
    return own.get


# -- encryption is required -------------------------------------------------------------------


@pytest.mark.every_catalog
def test_where_encryption_is_required_nothing_plain_is_made_or_written(lake: Lake) -> None:
    required = "true" if lake.kind in ("sqlite", "rest") else "other, DB"
    free = lake.connect()
    for name, version in (("db.two", "2"), ("db.three", "3")):
        free.create_table(name, ROWS.schema, properties={"format-version": version}).append(ROWS)
    before = lake.files()
    catalog = lake.connect(**{"encryption.required": required})
    with pytest.raises(EncryptionRequiredError, match=r"db\.t would not be encrypted, and .* encryption\.required="):
        catalog.create_table("db.t", ROWS.schema)
    for make in (catalog.create_table, catalog.create_table_if_not_exists, catalog.create_table_transaction):
        with pytest.raises(EncryptionRequiredError):
            make("db.t", ROWS.schema, properties=V3)
    with pytest.raises(EncryptionRequiredError):
        catalog.register_table("db.t", free.load_table("db.two").metadata_location)
    for name in ("db.two", "db.three"):
        table = catalog.load_table(name)
        assert table.scan().to_arrow().num_rows == 3
        words = rf"table {name} is not encrypted, and .* it can be read but not written\. Create a new table"
        acts: list[Any] = [
            lambda table=table: table.append(ROWS),
            lambda table=table: table.overwrite(ROWS),
            lambda table=table: table.delete("id = 1"),
            lambda table=table: table.upsert(ROWS, ["id"]),
            lambda table=table: table.transaction().set_properties({"a": "b"}),
            lambda table=table: table.update_schema().delete_column("id").commit(),
            lambda table=table: catalog.commit_table(table, (), (SetPropertiesUpdate(updates={"a": "b"}),)),
        ]
        for act in acts:
            with pytest.raises(EncryptionRequiredError, match=words):
                act()
    assert {name for name in lake.files() if not name.endswith(".metadata.json")} <= before
    sealed = catalog.create_table("db.t", ROWS.schema, properties=KEY)
    sealed.append(catalog.load_table("db.two").scan().to_arrow())
    assert sealed.scan().to_arrow().num_rows == 3
    catalog.drop_table("db.two")


def test_a_list_of_namespaces_leaves_the_others_alone(tmp_path: Path) -> None:
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **MEMORY_KMS}
    with sealberg.load_catalog("c", **settings, **{"encryption.required": "hr,fin"}) as catalog:
        for namespace in ("hr.pay", "hr2", "lake"):
            catalog.create_namespace(namespace)
        for namespace in ("hr2", "lake"):
            catalog.create_table(f"{namespace}.t", ROWS.schema).append(ROWS)
        with pytest.raises(EncryptionRequiredError, match=r"encryption\.required=hr: .*default-key-id\.hr\.pay"):
            catalog.create_table("hr.pay.t", ROWS.schema)
        with pytest.raises(EncryptionRequiredError):
            catalog.rename_table("lake.t", "hr.pay.t")
        # Neither a namespace nor a table can take the demand away.
        with pytest.raises(ConfigError, match="not a property of tables"):
            catalog.create_table("hr.pay.t", ROWS.schema, properties={"encryption.required": "false"})
        assert catalog.load_table("lake.t").scan().to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"encryption.required": "hr;fin pay"}, "must be true, false, or a comma-separated list"),
        ({"encryption.required": "['hr', 'fin']"}, "must be true, false, or a comma-separated list"),
        ({"encryption.required": ""}, "must be true, false, or a comma-separated list"),
        ({"encryption.required": "true,hr"}, "must be true, false, or a comma-separated list"),
        ({"encryption.requried": "true"}, r"unknown catalog property encryption\.requried \(known: .*required"),
        ({"encryption.key-id": "hr"}, r"unknown catalog property .* new tables is encryption\.default-key-id"),
        ({"encryption.default-key-id": ""}, "default-key-id is empty"),
        ({"encryption.default-key-id.hr": " "}, r"default-key-id\.hr is empty"),
        ({"encryption.default-key-id": "a", "table-default.encryption.key-id": "b"}, "Remove one of them"),
    ],
)
def test_a_configuration_that_cannot_be_right_is_refused(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        sealberg.load_catalog("x", type="in-memory", **properties)
    with pytest.raises(ConfigError, match=words):
        sealberg.load_catalog("x", **{"py-catalog-impl": "pyiceberg.catalog.memory.InMemoryCatalog", **properties})


def test_a_catalog_that_cannot_encrypt_makes_and_writes_nothing_where_encryption_is_required(tmp_path: Path) -> None:
    settings = {
        "py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
    }
    with sealberg.load_catalog("c", **settings) as free:
        free.create_namespace("db")
        free.create_table("db.t", ROWS.schema).append(ROWS)
    with sealberg.load_catalog("c", **settings, **{"encryption.required": "db"}) as catalog:
        with pytest.raises(EncryptionRequiredError):
            catalog.create_table("db.u", ROWS.schema)
        table = catalog.load_table("db.t")
        assert table.scan().to_arrow().num_rows == 3
        with pytest.raises(EncryptionRequiredError):
            table.append(ROWS)
    with (
        sealberg.load_catalog("c", **settings, **{"encryption.default-key-id": "hr"}) as catalog,
        pytest.raises(UnsupportedError, match="is encrypted"),
    ):
        catalog.create_table("db.u", ROWS.schema)


# -- expected keys ----------------------------------------------------------------------------


def test_a_table_must_have_the_key_that_the_configuration_expects(lake: Lake) -> None:
    free = lake.connect(**OTHER)
    free.create_table("db.Mine" if lake.kind not in ("hive", "glue") else "db.mine", ROWS.schema, properties=KEY)
    (name,) = free.list_tables("db")
    expected = "encryption.expected-key-id.db.mine"
    assert lake.connect(**{expected: "hr"}).load_table(name).properties["encryption.key-id"] == "hr"
    with pytest.raises(TrustError, match="is hr, expected finance"):
        lake.connect(**{expected: "finance"}).load_table(name)
    free.drop_table(name)
    told = lake.connect(**OTHER, **{expected: "hr"})
    for properties in ({}, V3, {"encryption.key-id": "finance"}):
        required = r"must have the encryption\.key-id hr, found .*expected-key-id\.db\.[Mm]ine=hr"
        with pytest.raises(ConfigError, match=required):
            told.create_table(name, ROWS.schema, properties=properties)
        assert not free.table_exists(name)
        free.create_table(name, ROWS.schema, properties=properties)
        with pytest.raises(TrustError, match="expected hr"):
            told.load_table(name)
        free.drop_table(name)
    told.create_table(name, ROWS.schema, properties=KEY)


# -- the key is tried when a table is made ----------------------------------------------------


def test_a_key_that_the_kms_does_not_know_and_a_kms_that_is_not_there_make_no_table(lake: Lake) -> None:
    catalog = lake.connect()
    for make in (catalog.create_table, catalog.create_table_transaction, catalog.create_table_if_not_exists):
        with pytest.raises(KeyNotFoundError, match=r"key pay is not found; existing keys: hr; restore .*table db\.t"):
            make("db.t", ROWS.schema, properties={"encryption.key-id": "pay"})
        with pytest.raises(ConfigError, match=r"db\.t cannot be created under the key hr: .*encryption\.kms-type"):
            getattr(lake.without(*MEMORY_KMS), make.__name__)("db.t", ROWS.schema, properties=KEY)
    assert catalog.list_tables("db") == []
    assert not lake.files()


def test_the_try_is_the_first_kek_and_costs_the_first_commit_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake.connect()
    catalog.create_table("db.t", ROWS.schema, properties=KEY)
    (kek,) = catalog.load_table("db.t").metadata.encryption_keys
    with monkeypatch.context() as patch:
        for verb in ("wrap", "unwrap"):
            patch.setattr(MemoryKms, verb, lambda *_: pytest.fail("the KMS was asked"))
        table = catalog.load_table("db.t")
        table.append(ROWS)
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table("db.t", ROWS.schema, properties=KEY)
        assert catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=KEY).name() == ("db", "t")
    assert table.metadata.encryption_keys.entries[0] == kek
    assert lake.connect().load_table("db.t").scan().to_arrow().num_rows == 3


# -- PyIceberg's exceptions -------------------------------------------------------------------


def test_mistakes_are_told_with_the_exceptions_of_pyiceberg(lake: Lake) -> None:
    ours, plain = lake.connect(), lake.plain()

    def kind(act: Any) -> type[BaseException]:
        with pytest.raises(Exception) as caught:
            act()
        return caught.type

    missing = [kind(lambda one=one: one.rename_table("db.none", "db.b")) for one in (ours, plain)]
    assert missing == [NoSuchTableError] * 2
    without_namespace = kind(lambda: plain.create_table("t", ROWS.schema))
    given: list[dict[str, str]] = [{}, V3, KEY]
    for number, properties in enumerate(given):
        assert kind(lambda own=properties: ours.create_table("t", ROWS.schema, properties=own)) is without_namespace
        name = f"db.race{number}"
        late = ours.create_table_transaction(name, ROWS.schema, properties=properties)
        ours.create_table(name, ROWS.schema, properties=properties)
        with pytest.raises(CommitFailedException, match=r"[Aa]lready exists"):
            late.commit_transaction()
        with pytest.raises(ValueError, match="None type is not a supported value in properties: a"):
            ours.create_table("db.none", ROWS.schema, properties={**properties, "a": None})
    assert not ours.table_exists("db.none")


# -- names that are set on a table ------------------------------------------------------------


def test_a_table_property_that_would_be_ignored_is_refused_by_name(lake: Lake) -> None:
    catalog = lake.connect()
    for name, words in {"write.parquet.compression": "known names of write", "write.upsert.enabled": "Flink"}.items():
        with pytest.raises(ConfigError, match=words):
            catalog.create_table("db.t", ROWS.schema, properties={**KEY, name: "1"})
    assert not catalog.table_exists("db.t")
    table = catalog.create_table("db.t", ROWS.schema, properties={**KEY, "team": "payroll"})
    with pytest.raises(ConfigError, match="known names of commit"), table.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retry": "7"})
    with table.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "7", "owner": "Ada"})
    assert table.properties["owner"] == "Ada"
