"""What an SQL catalog vouches for, and how a change that another tool made is accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import IcebergTables
from pyiceberg.exceptions import CommitFailedException
from sqlalchemy import delete, update
from sqlalchemy.orm import Session

from kit.servers import postgres
from kit.tables.catalogs import path_of
from sealberg.catalogs.sql.trust_table import TRUST
from sealberg.errors import TrustError
from sealberg.metadata.table_metadata import metadata_hash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSql

catalog, database = postgres.catalog, postgres.database  # the fixtures

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def make(catalog: EncryptedSql, name: str = "db.t", **properties: str) -> Any:
    table = catalog.create_table(name, ROWS.schema, properties={"encryption.key-id": "hr", **properties})
    table.append(ROWS)
    table.append(ROWS)
    return table


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def point_at(catalog: EncryptedSql, location: str, name: str = "t") -> None:
    """As another tool does, which knows nothing of trust."""
    with Session(catalog.engine) as session:
        session.execute(
            update(IcebergTables).where(IcebergTables.table_name == name).values(metadata_location=location)
        )
        session.commit()


def edit(location: str, change: Callable[[dict[str, Any]], object]) -> None:
    path = path_of(location)
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_text(json.dumps(raw))


def test_the_row_of_trust_says_what_the_metadata_are(catalog: EncryptedSql) -> None:
    table = make(catalog, **{"encryption.data-key-length": "24"})
    trusted = catalog.trusted("db.t")
    assert trusted is not None
    text = path_of(table.metadata_location).read_bytes()
    assert (trusted.key_id, trusted.key_length) == ("hr", "24")
    assert trusted.metadata_location == table.metadata_location
    assert trusted.metadata_hash == metadata_hash(text) == table.metadata.metadata_hash()
    assert catalog.found("db.t")[0] == trusted


def test_messages_say_what_differs(catalog: EncryptedSql) -> None:
    table = make(catalog)
    point_at(catalog, table.metadata.metadata_log[-1].metadata_file)
    with pytest.raises(TrustError, match=r"table db.t points at .* another tool has changed it"):
        catalog.load_table("db.t")
    point_at(catalog, table.metadata_location)
    edit(table.metadata_location, lambda raw: raw["properties"].update(owner="them"))
    with pytest.raises(TrustError, match=r"of table db.t might have been modified"):
        catalog.load_table("db.t")
    with Session(catalog.engine) as session:
        session.execute(delete(TRUST))
        session.commit()
    with pytest.raises(TrustError, match="does not vouch for it"):
        catalog.load_table("db.t")


def test_a_failed_commit_does_not_move_trust(catalog: EncryptedSql) -> None:
    table = make(catalog, **{"commit.retry.num-retries": "0"})
    before = catalog.trusted("db.t")
    late: Any = catalog.load_table("db.t")
    table.append(ROWS)
    after = catalog.trusted("db.t")
    assert after != before
    with pytest.raises(CommitFailedException):
        late.append(ROWS)
    assert catalog.trusted("db.t") == after
    assert len(rows_of(catalog.load_table("db.t"))) == 9


# -- accepting --------------------------------------------------------------------------------


def changed_by_another_tool(catalog: EncryptedSql, table: Any, tmp_path: Path, **properties: str) -> str:
    """A next version of the table, as another engine would commit it."""
    raw = json.loads(table.metadata.to_json())
    raw["properties"].update(properties)
    place = tmp_path / "00009-00000000-0000-0000-0000-000000000001.metadata.json"
    place.write_text(json.dumps(raw))
    point_at(catalog, f"file://{place}")
    return f"file://{place}"


def test_an_accepted_change_is_loaded_and_committed_on(catalog: EncryptedSql, tmp_path: Path) -> None:
    table = make(catalog)
    place = changed_by_another_tool(catalog, table, tmp_path, owner="them")
    found, metadata = catalog.found("db.t")
    assert found is not None
    assert (found.metadata_location, metadata.properties["owner"]) == (place, "them")
    catalog.trust("db.t", found)
    again = catalog.load_table("db.t")
    assert again.properties["owner"] == "them"
    again.append(ROWS)
    assert len(rows_of(catalog.load_table("db.t"))) == 9


def test_what_changed_after_it_was_shown_is_not_accepted(catalog: EncryptedSql, tmp_path: Path) -> None:
    table = make(catalog)
    place = changed_by_another_tool(catalog, table, tmp_path, owner="them")
    found, _ = catalog.found("db.t")
    edit(place, lambda raw: raw["properties"].update(owner="somebody else"))
    with pytest.raises(TrustError, match="changed again"):
        catalog.trust("db.t", found)
    edit(place, lambda raw: raw["properties"].update(owner="them"))
    point_at(catalog, table.metadata_location)
    with pytest.raises(TrustError, match="changed again"):
        catalog.trust("db.t", found)
    assert len(rows_of(catalog.load_table("db.t"))) == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"encryption.key-id": "theirs"}, "cannot become theirs"),
        ({"encryption.data-key-length": "32"}, "cannot become hr with a key length of 32"),
    ],
)
def test_other_keys_are_never_accepted(
    catalog: EncryptedSql, tmp_path: Path, change: dict[str, str], words: str
) -> None:
    table = make(catalog)
    before = catalog.trusted("db.t")
    changed_by_another_tool(catalog, table, tmp_path, **change)
    with pytest.raises(TrustError, match=words):
        catalog.trust("db.t", catalog.found("db.t")[0])
    assert catalog.trusted("db.t") == before


def test_a_table_that_is_not_encrypted_is_never_accepted_for_one_that_is(catalog: EncryptedSql) -> None:
    make(catalog)
    plain = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    point_at(catalog, plain.metadata_location)
    found, _ = catalog.found("db.t")
    assert found is None
    with pytest.raises(TrustError, match="is not encrypted"):
        catalog.trust("db.t", found)


def test_a_table_of_another_tool_is_accepted_on_first_sight(catalog: EncryptedSql) -> None:
    make(catalog)
    with Session(catalog.engine) as session:
        session.execute(delete(TRUST))
        session.commit()
    catalog.trust("db.t", catalog.found("db.t")[0])
    assert len(rows_of(catalog.load_table("db.t"))) == 6
