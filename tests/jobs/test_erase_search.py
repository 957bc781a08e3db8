"""The searches of one `erase`: what was read once is not read again, and the last search is still a proof."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kit.tables.lives import ids, lived, rows
from kit.tables.tables import sealed_catalog
from sealberg.files.locations import normal
from sealberg.jobs import erase
from sealberg.jobs.erasure import rewrite, search
from sealberg.jobs.erasure.search import Named, Search, Searched
from sealberg.jobs.runner import Threads
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


class Watched:
    """Which manifests and files the searches read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.manifests: list[str] = []
        self.files: list[str] = []
        for name in ("read_columns", "search_together"):
            monkeypatch.setattr(search, name, self._reading(getattr(search, name)))
        real = search.rows_held

        def held(task: Any) -> Any:
            self.files.append(str(task.file.file_path))
            return real(task)

        monkeypatch.setattr(search, "rows_held", held)

    def _reading(self, real: Any) -> Any:
        def read(given: Any, *others: Any) -> Any:
            self.manifests += [str(each.manifest_path) for each in (given if isinstance(given, list) else [given])]
            return real(given, *others)

        return read

    def forget(self) -> None:
        self.manifests.clear()
        self.files.clear()


def searched(table: Any, where: str, seen: Searched) -> Any:
    return Search(table, where, Threads(1), seen).run()


def test_a_second_search_reads_no_manifest_and_no_file_without_the_rows_again(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, seen, watched = lived(catalog), Searched(), Watched(monkeypatch)
    table.append(rows(2, 90))  # 3 lies between the bounds
    first = searched(table, "id = 3", seen)
    assert watched.manifests
    assert set(first.rows) < set(watched.files), "bounds do not rule all other files out"
    watched.forget()
    second = searched(table, "id = 3", seen)
    assert watched.manifests == []
    assert set(watched.files) == set(first.rows), "a file that holds the rows is looked into again"
    assert second == first


def test_a_later_search_reads_what_others_have_added(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, seen, watched = lived(catalog), Searched(), Watched(monkeypatch)
    assert not searched(table, "id = 77", seen)
    watched.forget()
    table.append(rows(77))
    found = searched(table, "id = 77", seen)
    assert sum(found.rows.values()) == 1
    assert set(watched.files) == set(found.rows)
    assert len(set(watched.manifests)) == 1, "the new manifest only"
    assert found.snapshot_ids == (table.metadata.current_snapshot_id,)


def test_a_file_with_the_rows_that_is_gone_is_not_remembered(catalog: EncryptedSqlCatalog) -> None:
    table, seen = lived(catalog), Searched()
    first = searched(table, "id = 3", seen)
    for path in first.rows:
        Path(normal(path)).unlink()
    again = searched(table, "id = 3", seen)
    assert (again.rows, again.unknown) == ({}, set(first.rows))
    assert again.snapshot_ids == first.snapshot_ids


def test_a_filter_that_means_another_column_now_is_searched_from_the_beginning(catalog: EncryptedSqlCatalog) -> None:
    table, seen = lived(catalog), Searched()
    assert not searched(table, "name = 'id'", seen)
    with table.update_schema() as update:
        update.rename_column("id", "number")
    assert sum(searched(table, "number = 3", Searched()).rows.values()) == 1
    with table.update_schema() as update:
        update.rename_column("name", "number_as_text")
        update.rename_column("number", "name")
    assert sum(searched(table, "name = 3", seen).rows.values()) == 1, "no answer of the other column is used"


def test_what_has_no_key_is_read_each_time() -> None:
    seen = Searched()

    class Bare:
        manifest_path = file_path = "x"
        key_metadata = None

    bare: Any = Bare()
    seen.add_manifest(bare, Named())
    seen.add_without(bare)
    assert (seen.manifest(bare), seen.is_without(bare), seen.has_manifests) == (None, False, False)


def test_the_proof_does_not_believe_the_plan_about_rows_that_come_later(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(catalog)
    real, left = rewrite.clean_branch, [1]

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        made = real(*arguments, **options)
        if left and left.pop():
            catalog.load_table("hr.people").append(rows(5, 51))
        return made

    monkeypatch.setattr(erase, "clean_branch", meanwhile)
    plan = erase.plan(table, where="id = 5")
    result = plan.execute()
    assert result.is_proved
    table.refresh()
    assert 5 not in ids(table)
    assert 51 in ids(table)


def test_a_round_is_two_commits_and_the_proof_needs_no_third(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(catalog)
    loads: list[str] = []
    real = CatalogTable.refresh

    def refresh(self: Any) -> Any:
        loads.append(self.metadata_location)
        return real(self)

    monkeypatch.setattr(CatalogTable, "refresh", refresh)
    number = int(Path(table.metadata_location).name.split("-")[0])
    result = erase.plan(table, where="id = 20").execute()
    assert result.is_proved
    assert result.resealed > 0
    assert int(Path(table.metadata_location).name.split("-")[0]) == number + 2
    assert len(loads) == 4, "for the plan, for the execution, before metadata files are deleted, for the proof"


@pytest.mark.parametrize("gone", [[0], [39], [0, 39], [7, 8, 9], [1, 5, 20], list(range(0, 40, 3)), list(range(40))])
def test_rows_around_few_or_many_erased_ones_keep_their_values_and_ids(
    catalog: EncryptedSqlCatalog, gone: list[int]
) -> None:
    catalog.create_namespace_if_not_exists("hr")
    given = pa.table({"id": pa.array(range(40), pa.int64()), "name": [None if n % 4 else f"p{n}" for n in range(40)]})
    table: Any = catalog.create_table("hr.around", given.schema, properties={"encryption.key-id": "hr"})
    table.append(given)
    before = lineage(table)
    text = ", ".join(map(str, gone))
    assert erase.plan(table, where=f"id in ({text}, -1)").execute().is_proved
    table.refresh()
    assert lineage(table) == [row for row in before if row["id"] not in gone]


def lineage(table: Any) -> list[dict[str, Any]]:
    fields = ("id", "name", "_row_id", "_last_updated_sequence_number")
    found: list[dict[str, Any]] = table.scan(selected_fields=fields).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def test_a_task_takes_no_open_reader_along(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    made = Search(table, "id = 3", Threads(1))
    made.run()
    tasks = list(made._tasks(set()))
    before = search.rows_held(tasks[0])
    assert tasks[0].lens is tasks[-1].lens, "one reader for all files"
    assert search.rows_held(pickle.loads(pickle.dumps(tasks[0]))) == before
