"""`erase`: a person's rows go from all of a table, and a search with every key that ever existed finds none of them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import TruncateTransform

from kit.programs.killed import points, run
from kit.tables.every_key import EveryKey, openings
from kit.tables.lives import check_exact, ids, lived, rows
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.errors import ConfigError, ConflictError
from sealberg.files.locations import normal
from sealberg.jobs import compact, erase, expire, orphans, verify
from sealberg.jobs.erasure import rewrite
from sealberg.jobs.runner import Threads
from sealberg.table.static_table import open_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": MASTER_KEY}
SEARCHABLE = {"write.manifest.compression-codec": "uncompressed"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


def ref(table: Any, name: str) -> list[int]:
    return ids(table, snapshot_id=table.metadata.refs[name].snapshot_id)


def folder(table: Any) -> Path:
    return Path(normal(table.metadata.location))


def shown(table: Any, keys: EveryKey, text: str) -> list[str]:
    """The files below the table in which one of the keys finds the text."""
    return [path.name for path, plain in openings(folder(table), keys) if text.encode() in plain]


def erased(table: Any, where: str, **options: Any) -> Any:
    result = erase.plan(table, where=where, **options).execute()
    table.refresh()
    return result


def test_no_key_that_ever_existed_opens_a_byte_of_an_erased_row(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog, **SEARCHABLE)
    keys = EveryKey()
    keys.add(table)
    assert shown(table, keys, "person-3"), "the search finds what is there"
    result = erased(table, "name = 'person-3'")
    assert (result.exit_code, result.is_proved, result.rows) == (0, True, 1)
    keys.add(table)
    assert shown(table, keys, "person-3") == []
    assert shown(table, keys, "person-4"), "and others are still there"
    assert [ids(table), ref(table, "audit"), ref(table, "first")] == [[2, 4, 5, 6, 20], [1, 2, 4], [1, 2]]
    check_exact(table)
    assert verify.plan(table, level="deep").execute().exit_code == 0


def test_a_row_that_a_vector_had_deleted_is_erased_too(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog, **SEARCHABLE)
    keys = EveryKey()
    keys.add(table)
    assert 31 not in ids(table)
    assert erased(table, "id = 31").is_proved
    keys.add(table)
    assert shown(table, keys, "person-31") == []
    check_exact(table)


def test_a_tag_that_shows_the_rows_is_named_and_removed(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    plan = erase.plan("hr.people", catalog=catalog, where="id = 1")
    assert plan.found.tags == ("first",)
    assert "tags that are removed: first" in str(plan)
    result = plan.execute()
    assert result.tags == ("first",)
    table.refresh()
    assert set(table.metadata.refs) == {"main", "audit"}
    assert ref(table, "audit") == [2, 3, 4]
    check_exact(table)


def test_older_metadata_open_nothing_of_the_rows(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    before = [entry.metadata_file for entry in table.metadata.metadata_log]
    assert erased(table, "id = 5").is_proved
    for location in before:
        if Path(normal(location)).exists():
            older: Any = open_table(location, KMS)
            assert all(5 not in ids(older, snapshot_id=each.snapshot_id) for each in older.metadata.snapshots)


def test_metadata_in_a_folder_that_the_table_had_before_open_nothing_either(
    catalog: EncryptedSqlCatalog, tmp_path: Path
) -> None:
    given = {
        "encryption.key-id": "hr",
        "write.metadata.path": f"file://{tmp_path}/former",
        "write.metadata.previous-versions-max": "1",
    }
    table: Any = catalog.create_table("hr.moved", rows().schema, properties=given)
    table.append(rows(1, 2, 3))
    table.append(rows(4))
    with table.transaction() as change:
        change.remove_properties("write.metadata.path")
    for number in (5, 6, 7):
        table.append(rows(number))
    held = list((tmp_path / "former").glob("*.metadata.json"))
    stray = tmp_path / "former" / "notes.txt"
    stray.write_text("not the table's own")
    assert len(held) == 3, "no log names them"
    assert erased(table, "id = 3").is_proved
    assert [path.name for path in held if path.exists()] == []
    assert stray.exists()
    assert ids(table) == [1, 2, 4, 5, 6, 7]


def test_the_kek_of_what_was_erased_is_gone(catalog: EncryptedSqlCatalog) -> None:
    """With the old KEK, a copy of older metadata would open again after a rewrap."""
    table = lived(catalog)
    before = {entry.key_id for entry in table.metadata.encryption_keys if entry.timestamp is not None}
    result = erased(table, "id = 5")
    after = {entry.key_id for entry in table.metadata.encryption_keys if entry.timestamp is not None}
    assert len(after) == 1
    assert not before & after
    assert result.resealed > 0, "the snapshots that stay were sealed under the old KEK"
    assert ref(table, "first") == [1, 2]


def test_a_key_that_other_tables_use_is_not_to_be_destroyed(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    assert "and destroy the key hr" in str(erased(table, "id = 5"))
    lived(catalog, "hr.second")
    text = str(erased(table, "id = 6"))
    assert "the table hr.second uses it too" in text
    assert "Do NOT destroy the key itself" in text
    assert "and destroy the key hr" not in text


def test_vectors_of_other_files_in_the_same_puffin_file_stay(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog, **SEARCHABLE)
    old = {str(task.file.file_path) for task in table.scan(row_filter="id = 2").plan_files()}
    keys = EveryKey()
    keys.add(table)
    assert erased(table, "id in (1, 2)").is_proved
    assert ids(table) == [4, 5, 6, 20], "row 3 is still deleted"
    keys.add(table)
    assert not [name for name in shown(table, keys, old.pop().rpartition("/")[2]) if name.endswith(".puffin")]
    check_exact(table)


def test_a_partition_of_one_person_goes_whole(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.parts", rows().schema, properties={"encryption.key-id": "hr", **SEARCHABLE})
    with table.update_spec() as spec:
        spec.add_identity("name")
    table.append(rows(1, 2, 3))
    keys = EveryKey()
    keys.add(table)
    assert erased(table, "name = 'person-2'").is_proved
    keys.add(table)
    assert shown(table, keys, "person-2") == []
    assert ids(table) == [1, 3]


def test_empty_folders_with_the_value_in_their_name_go(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.parts", rows().schema, properties={"encryption.key-id": "hr"})
    with table.update_spec() as spec:
        spec.add_identity("name")
        spec.add_field("name", TruncateTransform(7), "part")
    table.append(pa.table({"id": [1, 2, 3], "name": ["a b/ä", "person-2", "person-3"]}, schema=rows().schema))
    data = folder(table) / "data"
    other = data / "name=person-3" / "left-by-others.txt"
    other.write_text("x")
    (data / "name=person-2" / "part=former" / "deep").mkdir(parents=True)
    (data / "name=person-9").mkdir()
    assert {path.name for path in data.iterdir()} == {
        "name=a+b%2F%C3%A4",
        *(f"name=person-{each}" for each in (2, 3, 9)),
    }
    result = erased(table, "name = 'person-2' or name = 'a b/ä' or name = 'person-3'")
    assert result.is_proved
    assert {path.name for path in data.iterdir()} == {"name=person-3", "name=person-9"}, (
        "one is not empty, one another's"
    )
    assert "empty partition folders" in str(result)
    assert erased(table, "name = 'person-9'").folders == 1
    assert other.exists()


def test_rows_for_which_the_filter_is_null_stay(catalog: EncryptedSqlCatalog) -> None:
    table: Any = catalog.create_table("hr.nulls", rows().schema, properties={"encryption.key-id": "hr"})
    table.append(pa.table({"id": [1, 2, None], "name": ["a", None, "b"]}, schema=rows().schema))
    assert erased(table, "name = 'a'").rows == 1
    assert sorted(table.scan().to_arrow()["id"].to_pylist(), key=str) == [2, None]


def test_nothing_to_erase_is_proved_too(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    before = table.metadata_location
    result = erased(table, "id = 12345")
    assert (result.exit_code, result.rows, result.removed.count) == (0, 0, 0)
    assert table.metadata_location == before


def test_what_cannot_be_a_filter_is_refused(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    for where, reason in (
        ("nothing = 1", "cannot parse the filter"),
        ("id = id =", "cannot parse"),
        ("true", "every row"),
    ):
        with pytest.raises(ConfigError, match=reason):
            erase.plan(table, where=where)
    plain = catalog.create_table("hr.open", rows().schema, properties={"format-version": "3"})
    with pytest.raises(ConfigError, match="not an encrypted table"):
        erase.plan(plain, where="id = 1")


def test_a_tag_that_appears_after_the_plan_stops_the_job(catalog: EncryptedSqlCatalog) -> None:
    table = lived(catalog)
    plan = erase.plan(table, where="id = 5")
    other: Any = catalog.load_table("hr.people")
    other.manage_snapshots().create_tag(other.current_snapshot().snapshot_id, "late").commit()
    with pytest.raises(ConflictError, match="the tag late shows matching rows and is not in the plan"):
        plan.execute()
    assert 5 in ids(catalog.load_table("hr.people"))


def test_a_row_that_others_add_meanwhile_is_erased_or_reported(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(catalog)
    real, left = expire.expire_table, [1]

    def meanwhile(*arguments: Any, **options: Any) -> Any:
        if left and left.pop():
            catalog.load_table("hr.people").append(rows(5, 50))
        return real(*arguments, **options)

    monkeypatch.setattr(erase, "expire_table", meanwhile)
    result = erased(table, "id = 5")
    assert (result.is_proved, result.rows) == (True, 2)
    assert ids(table) == [2, 4, 6, 20, 50]


def test_a_conflict_with_a_compaction_is_searched_again(
    catalog: EncryptedSqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lived(catalog)
    real, left = rewrite.clean_branch, [1]

    def meanwhile(*arguments: Any) -> Any:
        if left and left.pop():
            compact.plan("hr.people", catalog=catalog, options={"rewrite-all": "true"}).execute()
        return real(*arguments)

    monkeypatch.setattr(erase, "clean_branch", meanwhile)
    assert erased(table, "id = 5").is_proved
    assert ids(table) == [2, 4, 6, 20]


def test_after_an_expiry_entries_of_removed_files_are_taken_for_the_person(catalog: EncryptedSqlCatalog) -> None:
    """The file is gone, and the entry still has its key: a backup of the file would open."""
    table = lived(catalog, **SEARCHABLE)
    keys = EveryKey()
    keys.add(table)
    expire.plan(table, older_than=timedelta(0), refs=["first", "audit"]).execute()
    table.refresh()
    table.delete("id = 20")
    expire.plan(table, older_than=timedelta(0)).execute()
    table.refresh()
    assert shown(table, keys_of(table), "person-20"), "the bounds of the removed file"
    assert erased(table, "id = 20").is_proved
    assert shown(table, keys_of(table), "person-20") == []


def keys_of(table: Any) -> EveryKey:
    keys = EveryKey()
    keys.add(table)
    return keys


# -- killed -------------------------------------------------------------------------------------------


def job(folder: Path) -> None:
    with sealed_catalog(folder) as catalog:
        result = erase.plan("hr.people", catalog=catalog, where="id = 3", runner=Threads(1)).execute(runner=Threads(1))
        assert result.is_proved, str(result)


def append(folder: Path, number: int) -> None:
    with sealed_catalog(folder) as catalog:
        catalog.load_table("hr.people").append(rows(number))


@pytest.mark.slow
def test_killed_at_many_points_with_a_second_writer_and_run_again_it_finishes(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path / "whole") as catalog:
        lived(catalog)
    whole = run(job, tmp_path / "whole")
    assert not whole.error
    for seed in (1, 2):  # half of the points each: a table is erased once
        place = tmp_path / str(seed)
        with sealed_catalog(place) as catalog:
            table = lived(catalog, **SEARCHABLE)
            keys, added = keys_of(table), set()
            for number, at in enumerate(points(whole.operations, 7, seed=seed)):
                run(job, place, at=at)
                append(place, 100 + number)
                added.add(100 + number)
                table.refresh()
                keys.add(table)
                assert set(ids(table)) == {2, 4, 5, 6, 20} | added
            assert not run(job, place).error
            table.refresh()
            keys.add(table)
            assert shown(table, keys, "person-3") == []
            assert set(ids(table)) == {2, 4, 5, 6, 20} | added
            assert ref(table, "audit") == [1, 2, 4]
            # A killed writer leaves files that no metadata names, and whose keys are in no metadata either.
            orphans.plan(table, older_than=timedelta(0), allow_recent=True).execute()
            check_exact(table)
