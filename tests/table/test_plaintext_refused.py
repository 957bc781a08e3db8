"""A table that somebody believes to be encrypted, and is not: it is neither read nor written, on any catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError

import sealberg
from kit.tables import catalogs
from sealberg.errors import ConfigError, PlaintextFileError, TrustError

if TYPE_CHECKING:
    from kit.tables.catalogs import Lake

ROWS: Final = pa.table({"email": ["TOPSECRET"]})
lake = catalogs.lake  # the fixture
KEY: Final = {"encryption.key-id": "hr"}


@pytest.mark.parametrize("name", ["encryption.key-id", "encryption.keyid", "Encryption.Key-Id", "encryption.kms-type"])
def test_a_plain_table_with_a_property_of_encryption_is_refused_with_the_way_out(lake: Lake, name: str) -> None:
    plain = lake.plain()
    if lake.kind == "rest" and name == "encryption.key-id":  # Java's server refuses it itself
        with pytest.raises(BadRequestError, match="Invalid properties for v2"):
            plain.create_table("db.t", ROWS.schema, properties={name: "hr"})
        return
    made = plain.create_table("db.t", ROWS.schema, properties={name: "hr"})
    before = lake.files()
    catalog = lake.connect()
    with pytest.raises(PlaintextFileError, match=rf"table db\.t is not encrypted .*{name}.*remove_properties"):
        catalog.load_table("db.t")
    with pytest.raises(PlaintextFileError, match="is not encrypted"):
        catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=KEY)
    assert lake.files() == before
    # The way out of the message.
    with made.transaction() as change:
        change.remove_properties(name)
    if lake.kind == "glue" and name == "encryption.key-id":
        # PyIceberg leaves the parameter in Glue, which vouches for a key: as long as it is there, the table is refused.
        with pytest.raises(TrustError, match="is not the metadata of the encrypted table"):
            lake.connect().load_table("db.t")
        return
    lake.connect().load_table("db.t").append(ROWS)
    sealed = catalog.create_table("db.sealed", ROWS.schema, properties=KEY)
    sealed.append(catalog.load_table("db.t").scan().to_arrow())
    assert sealed.scan().to_arrow().to_pylist() == ROWS.to_pylist()


def test_a_table_that_was_open_before_the_property_came_is_not_written(lake: Lake) -> None:
    table = lake.connect().create_table("db.t", ROWS.schema, properties={"format-version": "2"})
    with lake.plain().load_table("db.t").transaction() as change:
        change.set_properties(KEY)
    with pytest.raises(PlaintextFileError, match="is not encrypted"):
        table.append(ROWS)
    with pytest.raises(PlaintextFileError, match="is not encrypted"):
        table.refresh()


@pytest.mark.parametrize("name", ["encryption.keyid", "ENCRYPTION.key-id", "encryption.kms-type"])
def test_an_unknown_property_of_encryption_is_refused(lake: Lake, name: str) -> None:
    catalog = lake.connect()
    words = rf"{name} is not a property of tables; the encryption properties of tables are encryption\.key-id, "
    for version in ("2", "3"):
        given = {"format-version": version, name: "hr"}
        with pytest.raises(ConfigError, match=words):
            catalog.create_table("db.t", ROWS.schema, properties=given)
        with pytest.raises(ConfigError, match=words):
            catalog.create_table_transaction("db.t", ROWS.schema, properties=given)
    for number, properties in enumerate([{"format-version": "2"}, {"format-version": "3"}, KEY]):
        table = catalog.create_table(f"db.t{number}", ROWS.schema, properties=properties)
        with pytest.raises(ConfigError, match=words), table.transaction() as change:
            change.set_properties({name: "hr"})


@pytest.mark.parametrize("version", ["2", "3"])
def test_create_if_not_exists_gives_no_plain_table_for_a_key_id(lake: Lake, version: str) -> None:
    catalog = lake.connect()
    catalog.create_table("db.t", ROWS.schema, properties={"format-version": version})
    with pytest.raises(ConfigError, match=r"table db\.t exists and is not encrypted"):
        catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=KEY)
    assert catalog.create_table_if_not_exists("db.t", ROWS.schema).name() == ("db", "t")


def test_create_if_not_exists_gives_no_table_under_another_key(lake: Lake) -> None:
    catalog = lake.connect()
    catalog.create_table("db.t", ROWS.schema, properties=KEY)
    with pytest.raises(ConfigError, match=r"its encryption\.key-id is hr, not other"):
        catalog.create_table_if_not_exists("db.t", ROWS.schema, properties={"encryption.key-id": "other"})
    assert catalog.create_table_if_not_exists("db.t", ROWS.schema, properties=KEY).name() == ("db", "t")


def _believed(lake: Lake) -> dict[str, str]:
    return {"encryption.keyid": "hr"} if lake.kind == "rest" else KEY  # which Java's server refuses itself


def test_without_a_catalog_it_is_refused_too(lake: Lake) -> None:
    made: Any = lake.plain().create_table("db.t", ROWS.schema, properties=_believed(lake))
    with pytest.raises(PlaintextFileError, match="is not encrypted"):
        sealberg.open_table(made.metadata_location, lake.properties)


def test_it_is_not_registered(lake: Lake) -> None:
    made: Any = lake.plain().create_table("db.t", ROWS.schema, properties=_believed(lake))
    catalog = lake.connect()
    with pytest.raises(PlaintextFileError, match="is not encrypted"):
        catalog.register_table("db.other", made.metadata_location)
    assert ("db", "other") not in catalog.list_tables("db")
