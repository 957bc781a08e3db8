"""A filter is translated once for files that are alike, and again for files that differ; not for known bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import visitors
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from kit.tables import tables
from sealberg.scan import task_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SCHEMA = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "name", StringType()))
ROWS = pa.table({"id": pa.arange(0, 4_000).cast(pa.int32()), "name": [f"n{i % 7}" for i in range(4_000)]})
KEYS = list(range(5, 4_000, 13))
# Without bounds: once for the rows, once for the statistics. With bounds, the `in` is narrowed and not translated.
BOUNDS = pytest.mark.parametrize(("metrics", "translated"), [("none", 2), ("full", 0)])
AMONG_KEYS = f"id in ({', '.join(map(str, KEYS))})"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


@pytest.fixture
def translations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    real = visitors.translate_column_names

    def counted(*arguments: Any, **more: Any) -> Any:
        seen.append(arguments)
        return real(*arguments, **more)

    monkeypatch.setattr(task_reader, "translate_column_names", counted)
    return seen


def in_files(catalog: EncryptedSqlCatalog, count: int, metrics: str = "full") -> Any:
    modes = {"write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read"}
    table = tables.make(catalog, SCHEMA, **modes, **{"write.metadata.metrics.default": metrics})
    step = ROWS.num_rows // count
    with table.transaction() as transaction:
        for i in range(count):
            transaction.append(ROWS.slice(i * step, step))
    return table


@pytest.mark.slow
@BOUNDS
@pytest.mark.parametrize("files", [2, 8])
def test_a_scan_translates_its_filter_at_most_twice_however_many_files_there_are(
    catalog: EncryptedSqlCatalog, translations: list[Any], files: int, metrics: str, translated: int
) -> None:
    table = in_files(catalog, files, metrics)
    found = table.scan(row_filter=AMONG_KEYS).to_arrow()
    assert sorted(found["id"].to_pylist()) == KEYS
    assert len(translations) == translated


@pytest.mark.parametrize("files", [2, 8])
def test_a_filter_that_is_not_narrowed_is_translated_twice_with_bounds_too(
    catalog: EncryptedSqlCatalog, translations: list[Any], files: int
) -> None:
    table = in_files(catalog, files)
    found = table.scan(row_filter=f"{AMONG_KEYS} or id = 0").to_arrow()
    assert sorted(found["id"].to_pylist()) == [0, *KEYS]
    assert len(translations) == 2


@BOUNDS
@pytest.mark.parametrize("files", [2, 8])
def test_an_upsert_translates_its_filter_at_most_twice_however_many_files_there_are(
    catalog: EncryptedSqlCatalog, translations: list[Any], files: int, metrics: str, translated: int
) -> None:
    table = in_files(catalog, files, metrics)
    changed = table.upsert(pa.table({"id": pa.array(KEYS, pa.int32()), "name": ["new"] * len(KEYS)}), ["id"])
    assert (changed.rows_updated, changed.rows_inserted) == (len(KEYS), 0)
    assert len(translations) == translated
    assert table.scan(row_filter="name = 'new'").count() == len(KEYS)


@BOUNDS
@pytest.mark.parametrize("files", [2, 8])
def test_a_delete_translates_its_filter_at_most_twice_however_many_files_there_are(
    catalog: EncryptedSqlCatalog, translations: list[Any], files: int, metrics: str, translated: int
) -> None:
    table = in_files(catalog, files, metrics)
    table.delete(AMONG_KEYS)
    assert len(translations) == translated
    assert table.scan().count() == ROWS.num_rows - len(KEYS)


def test_an_upsert_with_two_key_columns_finds_exactly_its_keys(catalog: EncryptedSqlCatalog) -> None:
    table = in_files(catalog, 4)
    # (7, n1) is no row: 7 has n0. Each value alone is in the table.
    keys = pa.table({"id": pa.array([7, 8, 9], pa.int32()), "name": ["n1", "n1", "n2"]})
    changed = table.upsert(keys, ["id", "name"])
    assert (changed.rows_updated, changed.rows_inserted) == (0, 1)
    assert table.scan(row_filter="id = 7").count() == 2


def test_files_of_other_schemas_and_partitions_get_their_own_translation(catalog: EncryptedSqlCatalog) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    table = tables.make(catalog, SCHEMA, spec)
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]}))
    with table.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("id", "number")
    with table.update_schema() as update:
        update.add_column("id", StringType())
    table.append(pa.table({"number": pa.array([3, 4, 1 << 40]), "name": ["a", "b", "b"], "id": ["x", None, "1"]}))

    def numbers(row_filter: str) -> list[int]:
        return sorted(table.scan(row_filter=row_filter).to_arrow()["number"].to_pylist())

    assert numbers(f"number in (1, 3, {1 << 40})") == [1, 3, 1 << 40]
    assert numbers("id is null") == [1, 2, 4]
    assert numbers("id = 'x'") == [3]
    assert numbers("name = 'a' or id = '1'") == [1, 3, 1 << 40]
    assert numbers("name = 'b' or number = 3") == [2, 3, 4, 1 << 40]
