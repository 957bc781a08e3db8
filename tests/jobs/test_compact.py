"""compact: what becomes of rows, ids, deletes and partitions; the plan, its keys and the command."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import LongType

from jobs.compact_tables import BY_CAT, SCHEMA, VECTORS, filled, registered, some, sound, state
from kit.tables.small_tables import SmallTable
from kit.tables.tables import (
    MASTER_KEY,
    check_lineage,
    data_files,
    delete_files,
    entries,
    head,
    local,
    make,
    rows,
    sealed_catalog,
)
from sealberg.cli.main import main
from sealberg.errors import IntegrityError
from sealberg.jobs.compact import CompactPlan, plan
from sealberg.jobs.compaction.rewrite import rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyiceberg.partitioning import PartitionSpec

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as made:
        yield made


@pytest.mark.parametrize("spec", [(), (BY_CAT,)], ids=["unpartitioned", "partitioned"])
@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_small_files_become_one_per_partition_and_rows_keep_their_ids(
    catalog: EncryptedSqlCatalog, spec: tuple[PartitionSpec, ...], form: str
) -> None:
    table = filled(catalog, *spec, **dict[str, Any]({"write.format.default": form}))
    before, old = state(table), {file.file_path: file.key_metadata for file in data_files(table)}
    result = plan(table).execute()
    assert state(table) == before
    made = data_files(table)
    assert len(made) == (2 if spec else 1)
    assert (result.rewritten_data_files_count, result.added_data_files_count) == (len(old), len(made))
    assert not {file.key_metadata for file in made} & set(old.values()), "every new file has a new key"
    assert head(table).summary.operation.value == "replace"  # type: ignore[union-attr]
    sound(table)


def test_rows_of_new_files_keep_the_sequence_number_of_the_snapshot_that_was_read(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    start = head(table).sequence_number or 0
    plan(table).execute()
    table.refresh()
    (entry,) = entries(table)
    assert entry.sequence_number == start
    assert head(table).sequence_number == start + 1


def test_deletion_vectors_are_folded_in_and_removed(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, **VECTORS)
    table.delete("id >= 7 and id < 33")
    assert delete_files(table)
    before = state(table)
    result = plan(table).execute()
    assert state(table) == before
    assert delete_files(table) == []
    assert result.removed_delete_files_count == 2, "two files lost some rows; others lost all"
    sound(table)


def test_a_file_with_many_deleted_rows_is_rewritten_alone(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=2, **VECTORS)
    table.delete("id < 4")
    before = state(table)
    sizes = {"target-file-size-bytes": "2000", "min-file-size-bytes": "1"}
    assert plan(table, options={**sizes, "delete-ratio-threshold": "0.5"}).groups == ()
    (group,) = plan(table, options={**sizes, "delete-ratio-threshold": "0.4"}).groups
    assert len(group.files) == 1
    plan(table, options={**sizes, "delete-ratio-threshold": "0.4"}).execute()
    assert state(table) == before
    sound(table)


def test_a_file_without_live_rows_is_removed(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "small", SCHEMA)
    (tmp_path / "small").mkdir()
    one = small.parquet(some(0, 3))
    small.snapshot(one)
    small.snapshot(small.vector({one: [0, 1, 2]}))
    table = registered(tmp_path, small)
    plan(table).execute()
    assert state(table) == ([], {})
    assert data_files(table) == []
    assert delete_files(table) == []


def test_position_and_equality_deletes_are_folded_in_and_dangling_ones_removed(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    small = SmallTable(tmp_path / "small", SCHEMA)
    files = [small.parquet(some(i * 5, i * 5 + 5)) for i in range(5)]
    small.snapshot(*files)
    small.snapshot(small.position_deletes((files[0], 0), (files[0], 1), (files[1], 2)))
    small.snapshot(small.equality_deletes([{"id": 11}, {"id": 12}], Schema(SCHEMA.fields[0]), 1))
    table = registered(tmp_path, small)
    before = state(table)
    assert len(before[0]) == 20
    result = plan(table).execute()
    assert state(table) == before
    assert (len(data_files(table)), len(delete_files(table)), result.removed_delete_files_count) == (1, 2, 0)
    made = plan(table, options={"remove-dangling-deletes": "true"})
    assert (made.groups, made.changes, made.steps[0].removes.files) == ((), True, 2)
    result = made.execute()
    assert state(table) == before
    assert (delete_files(table), result.removed_delete_files_count) == ([], 2)
    assert not plan(table, options={"remove-dangling-deletes": "true"}).changes
    check_lineage(table)


def test_files_of_an_older_spec_get_the_current_spec(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    with table.update_spec() as change:
        change.add_field("id", BucketTransform(3), "bucket")
    table.append(some(60, 70))
    before = state(table)
    plan(table).execute()
    assert state(table) == before
    assert {file.spec_id for file in data_files(table)} == {table.metadata.default_spec_id}
    assert rows(table, "id", row_filter="id == 8") == [{"id": 8}]
    sound(table)


def test_columns_that_were_added_renamed_and_dropped_are_as_before(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, files=3)
    with table.update_schema() as change:
        change.add_column("more", LongType())
        change.rename_column("name", "title")
        change.delete_column("score")
    extra = some(30, 40).drop_columns(["score"]).rename_columns(["id", "title", "cat"])
    for _ in range(2):
        table.append(extra.append_column("more", pa.array(range(10), pa.int64())))
    before = rows(table)
    plan(table).execute()
    assert rows(table) == before
    sound(table)


def test_large_files_are_split(catalog: EncryptedSqlCatalog) -> None:
    table = make(catalog, SCHEMA)
    table.append(some(0, 20_000))
    size = data_files(table)[0].file_size_in_bytes
    before = state(table)
    plan(table, options={"target-file-size-bytes": str(size // 4)}).execute()
    assert state(table) == before
    counts = [file.record_count for file in data_files(table)]
    assert 4 <= len(counts) <= 5
    assert max(counts) - min(counts) <= 1
    sound(table)


def test_types_of_arrow_stay_as_they_were(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog)
    before = table.scan().to_arrow().schema
    plan(table).execute()
    assert table.refresh().scan().to_arrow().schema == before


def test_a_task_carries_the_keys_of_its_files_and_no_other_secret(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    made = plan(table)
    first, second = (next(made.tasks(group)) for group in made.groups)
    own = {bytes(file.file.key_metadata or b"") for file in first.files}
    others = {bytes(file.file.key_metadata or b"") for file in second.files}
    text = pickle.dumps(first)
    assert all(key in text for key in own)
    assert not any(key in text for key in others)
    assert MASTER_KEY.encode() not in text
    assert bytes.fromhex(MASTER_KEY) not in text
    assert b"sqlite" not in text
    ring = table.metadata.encryption_keys
    assert not any(entry.encrypted_key_metadata in text for entry in ring)
    done = rewrite(pickle.loads(text))
    assert done.error is None
    assert done.rows == 30
    shown = repr(made) + str(made) + json.dumps(made.to_json()) + repr(first) + repr(done)
    assert not any(repr(key)[2:-1] in shown or key.hex() in shown for key in own)


def test_the_command_compacts_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = filled(catalog, **VECTORS)
        table.delete("id == 3")
        before, name = state(table), ".".join(table.name())
    with command(tmp_path) as run:
        assert run("compact", name, "--dry-run") == 0
        assert "compact (1 group)" in capsys.readouterr().out
        assert run("compact", name) == 2, "there is no terminal to ask"
        assert "use --yes" in capsys.readouterr().err
        assert run("compact", name, "--yes", "--json", "--sort-by", "id desc", "--target-size", "1M") == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["rewritten_data_files_count"], said["added_data_files_count"]) == (6, 1)
        assert run("compact", name, "--yes") == 0
        assert "nothing to compact" in capsys.readouterr().out
        assert run("compact", name, "--yes", "--target-size", "big") == 2
        assert run("compact", name, "--option", "min-input-files=3", "--min-input-files", "4") == 2
    with sealed_catalog(tmp_path) as catalog:
        table = catalog.load_table(name)  # type: ignore[assignment]
        assert state(table) == before
        assert table.scan().to_arrow()["id"].to_pylist() == [i for i in reversed(range(60)) if i != 3]


def command(folder: Path) -> Any:
    """Runs the command with the catalog of a folder."""
    from contextlib import contextmanager

    @contextmanager
    def made() -> Iterator[Any]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYICEBERG_HOME", str(folder))
            (folder / ".pyiceberg.yaml").write_text(
                "catalog:\n  sealed:\n    type: sql\n"
                f"    uri: sqlite:///{folder}/sealed/catalog.db\n    warehouse: file://{folder}/sealed/wh\n"
                "    encryption.kms-type: memory\n"
                f"    encryption.kms.memory.key.hr: {MASTER_KEY}\n"
            )

            def run(*arguments: str) -> int:
                with pytest.raises(SystemExit) as ended:
                    main([*arguments, "--catalog", "sealed"])
                return int(ended.value.code or 0)

            yield run

    return made()


def test_a_damaged_file_stops_the_job_and_leaves_nothing_behind(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = filled(catalog, BY_CAT)
    path = local(str(data_files(table)[0].file_path))
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    files = set(tmp_path.rglob("*.*"))
    with pytest.raises(IntegrityError, match=r"altered|authentic"):
        plan(table).execute()
    assert set(tmp_path.rglob("*.*")) == files


def test_with_partial_progress_a_damaged_file_costs_its_group_only(catalog: EncryptedSqlCatalog) -> None:
    table = filled(catalog, BY_CAT)
    damaged = data_files(table)[0]
    path = local(str(damaged.file_path))
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    made: CompactPlan = plan(table, options={"partial-progress.enabled": "true"})
    result = made.execute()
    assert result.exit_code == 2
    assert [group.files for group in result.failed] == [6]
    assert "not compacted: group" in str(result)
    table.refresh()
    kept = [file for file in data_files(table) if file.partition[0] == damaged.partition[0]]
    assert (len(kept), len(data_files(table))) == (6, 7)
