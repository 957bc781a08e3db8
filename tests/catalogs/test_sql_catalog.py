"""SQL catalogs on SQLite and PostgreSQL: what only they have, beyond what all catalogs do."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

import sealberg
from kit.servers import postgres
from kit.servers.postgres import KEY_ID, empty_database
from sealberg.catalogs.sql.trust_table import TRUST
from sealberg.errors import CatalogError, ConfigError, TrustError

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.postgres import Database
    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures

ENCRYPTED = {"encryption.key-id": KEY_ID}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "name", StringType(), required=False))


def make(catalog: EncryptedSql, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def query(catalog: EncryptedSql, statement: str, **values: Any) -> list[Any]:
    with Session(catalog.engine) as session:
        done = session.execute(text(statement), values)
        found = [tuple(row) for row in done] if done.returns_rows else []  # type: ignore[attr-defined]
        session.commit()
    return found


def test_only_encrypted_tables_have_a_row_of_trust(catalog: EncryptedSql) -> None:
    make(catalog)
    catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"}).append(ROWS)
    catalog.create_table_transaction("db.staged", ROWS.schema, properties=ENCRYPTED).append(ROWS)
    assert catalog.trusted("db.plain") is None
    assert query(catalog, "SELECT table_name FROM sealberg_trust") == [("t",)]


# -- rename, drop, purge, register ------------------------------------------------------------


def test_rename_takes_trust_along(catalog: EncryptedSql) -> None:
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


def test_a_name_that_another_tool_freed_can_be_used_again(catalog: EncryptedSql, database: Database) -> None:
    make(catalog, "db.a").append(ROWS)
    make(catalog, "db.b")
    plain = SqlCatalog("test", **database.properties)
    plain.drop_table("db.b")  # the row of trust stays behind
    plain.close()
    assert rows_of(catalog.rename_table("db.a", "db.b")) == [1, 2, 3]
    make(catalog, "db.a")


def test_drop_takes_trust_along_and_leaves_the_files(catalog: EncryptedSql, database: Database) -> None:
    make(catalog).append(ROWS)
    files = database.files()
    catalog.drop_table("db.t")
    assert query(catalog, "SELECT * FROM sealberg_trust") == []
    assert database.files() == files
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("db.t")


def test_register_over_a_table_is_for_the_same_keys_only(catalog: EncryptedSql) -> None:
    table = make(catalog)
    table.append(ROWS)
    first = table.metadata_location
    table.append(ROWS)
    assert rows_of(catalog.register_table("db.t", first, overwrite=True)) == [1, 2, 3]
    plain = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    with pytest.raises(TrustError, match="is not encrypted"):
        catalog.register_table("db.t", plain.metadata_location, overwrite=True)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_metadata_without_their_key_id_are_not_registered(catalog: EncryptedSql, tmp_path: Path) -> None:
    table = make(catalog)
    table.append(ROWS)
    stripped = table.metadata.model_copy(update={"properties": {}})
    place = tmp_path / "00000-x.metadata.json"
    place.write_text(stripped.to_json())
    with pytest.raises(TrustError, match="does not vouch"):
        catalog.register_table("db.stripped", str(place))
    assert catalog.list_tables("db") == [("db", "t")]


def test_compressed_metadata_are_loaded_and_committed_on(catalog: EncryptedSql, tmp_path: Path) -> None:
    table = make(catalog)
    table.append(ROWS)
    place = tmp_path / "00007-00000000-0000-0000-0000-000000000001.gz.metadata.json"
    place.write_bytes(gzip.compress(table.metadata.to_json().encode()))
    again = catalog.register_table("db.gz", f"file://{place}")
    again.append(ROWS)
    assert len(rows_of(catalog.load_table("db.gz"))) == 6
    assert catalog.load_table("db.gz").metadata_location.rpartition("/")[2].startswith("00008-")


def test_views_of_other_tools_are_no_tables(catalog: EncryptedSql) -> None:
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


def test_destroy_tables_takes_trust_along(catalog: EncryptedSql) -> None:
    make(catalog)
    catalog.destroy_tables()
    catalog.create_tables()
    assert query(catalog, "SELECT * FROM sealberg_trust") == []
    assert query(catalog, "SELECT * FROM iceberg_tables") == []


def test_a_database_without_a_table_of_trust_has_plain_tables_and_refuses_encrypted_ones(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with SqlCatalog("test", **database.properties) as plain:
        plain.create_namespace("db")
        plain.create_table("db.old", ROWS.schema).append(ROWS)
    with database.catalog(init_catalog_tables="false") as bare:
        assert "the database has no table sealberg_trust" in caplog.text
        assert bare.load_table("db.old").scan().count() == 3
        bare.create_table("db.v3", ROWS.schema, properties={"format-version": "3"}).append(ROWS)
        bare.rename_table("db.v3", "db.new")
        with pytest.raises(ConfigError, match=r"db\.t cannot be an encrypted table: .* no table sealberg_trust"):
            bare.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
        assert bare.list_tables("db") == [("db", "new"), ("db", "old")]
        # Another client makes the table of trust and an encrypted table, while this one is open.
        with database.catalog() as whole:
            make(whole).append(ROWS)  # type: ignore[arg-type]
        assert bare.load_table("db.t").scan().count() == 3
        bare.drop_table("db.t")
    # Where the table of trust is away, nobody vouches for an encrypted table.
    with database.catalog() as whole:
        make(whole)  # type: ignore[arg-type]
        TRUST.metadata.drop_all(whole.engine)  # type: ignore[attr-defined]
    with (
        database.catalog(init_catalog_tables="false") as bare,
        pytest.raises(TrustError, match="does not vouch for it"),
    ):
        bare.load_table("db.t")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["create", "transaction", "register"])
def test_a_table_that_another_tool_has_dropped_leaves_its_name_free(
    database: Database, catalog: EncryptedSql, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    make(catalog).append(ROWS)
    with SqlCatalog("test", **database.properties) as plain:
        plain.drop_table("db.t")
        # Made by another tool, a plaintext table is refused under the name of an encrypted one.
        plain.create_table("db.t", ROWS.schema)
        with pytest.raises(TrustError, match="another tool has changed it"):
            catalog.load_table("db.t")
        with pytest.raises(TableAlreadyExistsError):
            catalog.create_table("db.t", ROWS.schema)
        with pytest.raises(TrustError, match="another tool has changed it"):
            catalog.load_table("db.t")
        plain.drop_table("db.t")
    if how == "create":
        table = catalog.create_table("db.t", ROWS.schema)
    elif how == "transaction":
        table = catalog.create_table_transaction("db.t", ROWS.schema).commit_transaction()
    else:
        location = catalog.create_table("db.u", ROWS.schema).metadata_location
        table = catalog.register_table("db.t", location)
    assert "db.t was dropped by another tool" in caplog.text
    table.append(ROWS)
    assert catalog.load_table("db.t").scan().count() == 3
    assert catalog.trusted("db.t") is None


def test_two_catalogs_in_one_database_do_not_see_each_other(database: Database, catalog: EncryptedSql) -> None:
    make(catalog).append(ROWS)
    with sealberg.load_catalog("other", **database.properties) as other:
        other.create_namespace("db")
        with pytest.raises(NoSuchTableError):
            other.load_table("db.t")
        other.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
    assert rows_of(catalog.load_table("db.t")) == [1, 2, 3]


def test_nested_namespaces_keep_their_names(catalog: EncryptedSql) -> None:
    catalog.create_namespace("db.inner")
    table = catalog.create_table("db.inner.t", ROWS.schema, properties=ENCRYPTED)
    table.append(ROWS)
    assert catalog.load_table(("db", "inner", "t")).name() == ("db", "inner", "t")
    assert rows_of(catalog.rename_table("db.inner.t", "db.t")) == [1, 2, 3]


def test_what_pyiceberg_pickles_is_pickled_and_what_it_does_not_is_not(catalog: EncryptedSql) -> None:
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


def test_a_namespace_with_a_property_of_none_is_refused_for_what_it_is(catalog: EncryptedSql) -> None:
    with pytest.raises(CatalogError, match="refused to create the namespace sealed"):
        catalog.create_namespace("sealed", {"owner": None})
    assert not catalog.namespace_exists("sealed")
    catalog.create_namespace("sealed")
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("sealed")
    catalog.drop_namespace("sealed")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "PostgreSQL", "postgresql+psycopg2"])
def test_a_postgresql_url_needs_no_driver_in_it(tmp_path: Path, scheme: str) -> None:
    with empty_database("postgresql", tmp_path) as database:
        uri = database.uri.replace("postgresql+psycopg2", scheme)
        with sealberg.load_catalog("p", **{**database.properties, "uri": uri}) as found:
            found.create_namespace("n")
            assert found.list_namespaces() == [("n",)]


def test_a_url_of_a_driver_that_is_not_installed_is_refused_by_its_package(tmp_path: Path) -> None:
    for driver in ("psycopg", "pg8000", "asyncpg"):
        if importlib.util.find_spec(driver) is None:
            with pytest.raises(ConfigError, match=f"needs the package {driver}") as caught:
                uri = f"postgresql+{driver}://me:geheim@h/d"
                sealberg.load_catalog("p", type="sql", uri=uri, warehouse=str(tmp_path))
            assert "geheim" not in str(caught.value)
