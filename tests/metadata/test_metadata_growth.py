"""What a commit does for each snapshot that the table already has, counted."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from kit.tables import tables
from sealberg.metadata import java_json, table_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", LongType()))
ROW = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


def test_a_commit_writes_each_snapshot_once(catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tables.make(catalog, SCHEMA)
    with table.transaction() as transaction:
        for _ in range(20):
            transaction.append(ROW)
    real, written = table_metadata.snapshot_json, list[int]()

    def counted(snapshot: Any) -> dict[str, Any]:
        written.append(snapshot.snapshot_id)
        return real(snapshot)

    monkeypatch.setattr(table_metadata, "snapshot_json", counted)
    table.append(ROW)
    assert len(written) == len(table.metadata.snapshots) == 21


def test_copies_of_metadata_share_their_snapshots(catalog: EncryptedSqlCatalog) -> None:
    table = tables.make(catalog, SCHEMA)
    table.append(ROW)
    metadata = table.metadata
    copied = deepcopy(metadata)
    assert copied is not metadata
    assert copied == metadata
    assert copied.snapshots is not metadata.snapshots
    assert copied.snapshots[0] is metadata.snapshots[0]
    assert copied.properties is not metadata.properties


def test_metadata_of_the_same_time_are_compared_as_a_whole(catalog: EncryptedSqlCatalog) -> None:
    metadata = tables.make(catalog, SCHEMA).metadata
    other = metadata.model_copy(update={"properties": {**metadata.properties, "a": "b"}})
    assert other != metadata
    assert metadata.model_copy(update={"last_updated_ms": metadata.last_updated_ms + 1}) != metadata


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(st.dictionaries(ANY_TEXT, ANY_TEXT | st.integers() | st.booleans() | st.none(), max_size=5))
def test_flat_objects_are_written_like_all_others(value: dict[str, Any]) -> None:
    # An empty list beside the members keeps the object from being flat.
    expected = java_json.dumps({**value, "last": []}).removesuffix('"last":[]}').removesuffix(",") + "}"
    assert "last" in value or java_json.dumps(value) == expected


def test_control_characters_are_in_upper_case_hex_also_in_flat_objects() -> None:
    assert java_json.dumps({"a": "\x1f\x0b\n\u2028é/"}) == '{"a":"\\u001F\\u000B\\n\u2028é/"}'
