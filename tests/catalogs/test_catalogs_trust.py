"""Metadata that somebody edited, swapped or rolled back in storage, in every catalog that vouches for them: refused."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.errors import IntegrityError, TrustError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kit.tables.catalogs import Lake, Meddling

vouching = catalogs.vouching  # the fixture

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "an edited property": lambda raw: raw["properties"].update(owner="them"),
    "a removed key id": lambda raw: raw["properties"].pop("encryption.key-id"),
    "another key id": lambda raw: raw["properties"].update({"encryption.key-id": "theirs"}),
    "another key length": lambda raw: raw["properties"].update({"encryption.data-key-length": "32"}),
    "plaintext allowed": lambda raw: raw["properties"].update({"encryption.allow-plaintext-files": "true"}),
    "an added snapshot": lambda raw: raw["snapshots"].append(
        {**raw["snapshots"][-1], "snapshot-id": 7, "sequence-number": 9, "key-id": None}
    ),
    "a removed snapshot": lambda raw: raw["snapshots"].pop(0),
    "another current snapshot": lambda raw: raw.update(
        {"current-snapshot-id": raw["snapshots"][0]["snapshot-id"]},
        refs={"main": {"snapshot-id": raw["snapshots"][0]["snapshot-id"], "type": "branch"}},
    ),
    "another location": lambda raw: raw.update(location="file:///theirs"),
    "a lower version": lambda raw: raw.update({"format-version": 2}),
    "no keys": lambda raw: raw.pop("encryption-keys"),
    "white space only": lambda _: None,
}


@pytest.fixture
def catalog(vouching: Lake) -> Any:
    return vouching.connect()


@pytest.fixture
def meddling(vouching: Lake) -> Meddling:
    assert vouching.meddling is not None
    return vouching.meddling


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    table = catalog.create_table(name, ROWS.schema, properties={"encryption.key-id": "hr", **properties})
    table.append(ROWS)
    table.append(ROWS)
    return table


def rows_of(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def edit(location: str, change: Callable[[dict[str, Any]], object]) -> None:
    path = path_of(location)
    raw = json.loads(path.read_bytes())
    change(raw)
    path.write_text(json.dumps(raw))


@pytest.mark.every_catalog
def test_metadata_edited_in_storage_are_refused_by_load_and_by_commit(catalog: Any, vouching: Lake) -> None:
    table = make(catalog)
    path = path_of(table.metadata_location)
    good, before = path.read_bytes(), vouching.files()
    for what, change in EDITS.items():
        path.write_bytes(good)
        edit(table.metadata_location, change)
        for use in (
            lambda: catalog.load_table("db.t"),
            lambda: table.append(ROWS),
            table.refresh,
            lambda: catalog.purge_table("db.t"),
        ):
            with pytest.raises(TrustError):
                use()
        assert vouching.files() == before, what
    path.write_bytes(good)
    assert len(rows_of(catalog.load_table("db.t"))) == 6


def test_metadata_that_are_no_metadata_are_refused(catalog: Any) -> None:
    table = make(catalog)
    for content in (b"", b"{", b"[]", b"PAR1", b"\x1f\x8bbroken", gzip.compress(b"{}")):
        path_of(table.metadata_location).write_bytes(content)
        with pytest.raises(IntegrityError):
            catalog.load_table("db.t")


@pytest.mark.parametrize("whose", ["another table's", "an older version's"])
def test_a_metadata_file_swapped_for_one_that_was_valid_elsewhere_is_refused(catalog: Any, whose: str) -> None:
    table = make(catalog)
    other = make(catalog, "db.other")
    older = table.metadata.metadata_log[-1].metadata_file
    source = other.metadata_location if whose == "another table's" else older
    path_of(table.metadata_location).write_bytes(path_of(source).read_bytes())
    with pytest.raises(TrustError):
        catalog.load_table("db.t")
    with pytest.raises(TrustError):
        table.append(ROWS)
    assert len(rows_of(catalog.load_table("db.other"))) == 6


@pytest.mark.every_catalog
def test_a_pointer_that_somebody_moved_is_refused(catalog: Any, meddling: Meddling, tmp_path: Path) -> None:
    table = make(catalog)
    theirs = tmp_path / "theirs.metadata.json"
    theirs.write_text(table.metadata.to_json().replace('"hr"', '"theirs"'))
    for place in (
        table.metadata.metadata_log[-1].metadata_file,  # an older version
        make(catalog, "db.other").metadata_location,
        f"file://{theirs}",
    ):
        meddling.point_at("t", place)
        with pytest.raises(TrustError):
            catalog.load_table("db.t")
        with pytest.raises(TrustError):
            table.append(ROWS)
    meddling.point_at("t", table.metadata_location)
    assert len(rows_of(catalog.load_table("db.t"))) == 6


@pytest.mark.every_catalog
@pytest.mark.parametrize("key_id", ["theirs", None])
def test_a_key_id_that_the_catalog_no_longer_vouches_for_is_refused(
    catalog: Any, meddling: Meddling, key_id: str | None
) -> None:
    table = make(catalog)
    meddling.set_key_id("t", key_id)
    with pytest.raises(TrustError):
        catalog.load_table("db.t")
    with pytest.raises(TrustError):
        table.append(ROWS)
    # Nor does it become a plain table by what storage says.
    edit(table.metadata_location, EDITS["a removed key id"])
    with pytest.raises(TrustError):
        catalog.load_table("db.t")


def test_a_plain_table_does_not_become_an_encrypted_one_by_what_storage_says(catalog: Any) -> None:
    plain = catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    edit(plain.metadata_location, lambda raw: raw["properties"].update({"encryption.key-id": "hr"}))
    with pytest.raises(TrustError):
        catalog.load_table("db.plain")


def test_metadata_compressed_afterwards_are_the_same_metadata(catalog: Any) -> None:
    table = make(catalog)
    path = path_of(table.metadata_location)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert len(rows_of(catalog.load_table("db.t"))) == 6
