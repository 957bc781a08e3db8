"""`stats`: sketches of columns in an encrypted file, with its key in the table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationException

from kit.programs import killed
from kit.tables import tables
from sealberg.errors import ConfigError, IntegrityError
from sealberg.files.file_io import keyed
from sealberg.files.puffin.container import read_blob, read_footer
from sealberg.files.puffin.theta_sketch import ThetaSketch
from sealberg.jobs import compact, stats, stats_removal, verify
from sealberg.jobs.runner import Threads
from sealberg.jobs.stats_removal import remove_statistics_files
from sealberg.table.statistics import open_key, read_sketches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
    from sealberg.table.catalog_table import CatalogTable

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table({"id": list(ids), "name": [f"n{i % 7}" for i in ids], "tags": [["t"]] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with tables.sealed_catalog(tmp_path) as made:
        yield made


@pytest.fixture
def table(catalog: EncryptedSqlCatalog) -> CatalogTable:
    made = tables.make(catalog, SCHEMA, **{"write.delete.mode": "merge-on-read"})
    made.append(rows(0, 100))
    made.append(rows(50, 150))
    return made


def blobs(table: CatalogTable) -> dict[int, ThetaSketch]:
    (file,) = table.metadata.statistics
    key: Any = open_key(table.metadata, table.io, file)  # type: ignore[arg-type]
    stream: Any = table.io.new_input(keyed(file.statistics_path, key.encode())).open()
    with stream:
        return {blob.fields[0]: ThetaSketch.decode(read_blob(stream, blob)) for blob in read_footer(stream).blobs}


def test_it_counts_the_distinct_values_of_primitive_columns(table: CatalogTable) -> None:
    result = stats.plan(table).execute()
    assert result.distinct == (("id", 150), ("name", 7))
    assert {field_id: sketch.estimate for field_id, sketch in blobs(table).items()} == {1: 150, 2: 7}
    assert result.exit_code == 0
    assert json.loads(json.dumps(result.to_json()))["distinct_values"] == {"id": 150, "name": 7}
    assert "150" in str(result)


def test_deleted_rows_do_not_count(table: CatalogTable) -> None:
    table.delete("id >= 100")
    assert stats.plan(table, columns=["id"]).execute().distinct == (("id", 100),)


def test_an_older_snapshot_is_counted_with_its_own_schema(table: CatalogTable) -> None:
    first = table.metadata.snapshots[0].snapshot_id
    with table.update_schema() as change:
        change.rename_column("id", "number")
    assert stats.plan(table, snapshot=first).execute().distinct == (("id", 100), ("name", 7))


def test_the_numbers_are_in_the_encrypted_file_and_not_in_metadata_json(table: CatalogTable) -> None:
    result = stats.plan(table).execute()
    assert result.location is not None
    assert tables.local(result.location).read_bytes()[:4] == b"AGS1"
    (file,) = table.metadata.statistics
    assert [blob.properties for blob in file.blob_metadata] == [None, None]
    footer = read_sketches(table.metadata, table.io, file.snapshot_id)  # type: ignore[arg-type]
    assert footer is not None
    assert [blob.properties["ndv"] for blob in footer.blobs] == ["150", "7"]


def test_the_numbers_are_published_only_if_that_is_asked_for(table: CatalogTable) -> None:
    made = stats.plan(table, publish_ndv=True)
    assert "not encrypted" in str(made)
    made.execute()
    (file,) = table.metadata.statistics
    assert [blob.properties for blob in file.blob_metadata] == [{"ndv": "150"}, {"ndv": "7"}]


def test_a_second_run_replaces_the_file_the_key_and_nothing_else(table: CatalogTable) -> None:
    first = stats.plan(table).execute()
    keys = len(table.metadata.encryption_keys)
    second = stats.plan(table, columns=["name"]).execute()
    assert second.replaced == first.location is not None
    assert not tables.local(first.location or "").exists()
    assert len(table.metadata.encryption_keys) == keys
    assert verify.plan(table, level="deep").execute().exit_code == 0


def test_what_statistics_name_and_what_is_live_or_of_others_stays(table: CatalogTable, tmp_path: Path) -> None:
    kept = tmp_path / "keystore.age"
    kept.write_text("precious")
    first = stats.plan(table).execute().location
    live = [each.file.file_path for each in table.scan().plan_files()]
    snapshot = table.metadata.snapshots[-1]
    given = [*live, snapshot.manifest_list, table.metadata_location, f"file://{kept}", str(first)]
    table.refresh()
    left = dict(remove_statistics_files(table, given))
    assert set(left) == set(given), "nothing of it is a statistics file that the table has given up"
    assert kept.read_text() == "precious"
    second = stats.plan(table).execute()
    assert (second.replaced, second.left, second.exit_code) == (first, (), 0)
    assert table.refresh().scan().count() > 0


def test_a_table_without_snapshots_has_nothing_to_count(catalog: EncryptedSqlCatalog) -> None:
    empty = tables.make(catalog, SCHEMA)
    made = stats.plan(empty)
    assert not made.changes
    assert made.execute().location is None


def test_an_empty_snapshot_has_empty_sketches(catalog: EncryptedSqlCatalog) -> None:
    empty = tables.make(catalog, SCHEMA)
    empty.append(rows(0, 0))
    assert stats.plan(empty).execute().distinct == (("id", 0), ("name", 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nobody"]}, "no column nobody; the columns are id, name, tags"),
        ({"columns": ["tags"]}, "expected a primitive type"),
        ({"snapshot": 7}, "has no snapshot 7"),
    ],
)
def test_wrong_options_are_refused_when_the_plan_is_made(table: CatalogTable, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        stats.plan(table, **options)


def test_a_plaintext_table_is_refused(catalog: EncryptedSqlCatalog) -> None:
    catalog.create_table("hr.plain", SCHEMA, properties={"format-version": "3"})
    with pytest.raises(ConfigError, match="not an encrypted table"):
        stats.plan("hr.plain", catalog=catalog)


def test_compact_counts_again_what_was_counted_before(table: CatalogTable) -> None:
    assert not compact.plan(table, options={"rewrite-all": "true"}).statistics
    stats.plan(table).execute()
    done = compact.plan(table, options={"rewrite-all": "true"}).execute()
    newest = [file for file in table.metadata.statistics if file.snapshot_id == table.metadata.current_snapshot_id]
    assert [file.statistics_path for file in newest] == [done.statistics_file]
    assert verify.plan(table).execute().exit_code == 0


def test_compact_counts_if_it_is_asked_to_and_not_if_it_is_asked_not_to(table: CatalogTable) -> None:
    done = compact.plan(table, options={"rewrite-all": "true"}, statistics=True).execute()
    assert done.statistics_file is not None
    assert not compact.plan(table, options={"rewrite-all": "true"}, statistics=False).statistics


def test_a_task_has_no_key_but_those_of_its_files_and_shows_none(table: CatalogTable) -> None:
    snapshot = table.current_snapshot()
    tasks = list(stats._tasks(table, snapshot, table.schema().fields[:1]))  # type: ignore[arg-type]
    for task in tasks:
        assert len(getattr(task.metadata, "encryption_keys")) == 0  # noqa: B009 (of our class)
        assert not task.metadata.snapshots
        assert not hasattr(task.io, "open_list_key")
        assert "uri" not in task.io.properties
        assert task.file.key_metadata.hex() not in repr(task)  # type: ignore[union-attr]


# -- other writers, faults ----------------------------------------------------------------------


def test_another_writer_in_between_is_kept_and_so_are_the_statistics(
    catalog: EncryptedSqlCatalog, table: CatalogTable
) -> None:
    made = stats.plan(table)
    catalog.load_table(table.name()).append(rows(200, 300))
    counted = made.execute()
    table.refresh()
    assert counted.distinct == (("id", 150), ("name", 7))
    assert len(table.metadata.snapshots) == 3
    assert blobs(table)[1].estimate == 150
    assert table.scan().count() == 300


def test_a_snapshot_that_was_expired_meanwhile_gets_no_statistics(
    catalog: EncryptedSqlCatalog, table: CatalogTable
) -> None:
    made = stats.plan(table)
    other: Any = catalog.load_table(table.name())
    other.append(rows(0, 1))
    gone = made.snapshot
    assert gone is not None
    other.maintenance.expire_snapshots().by_id(gone.snapshot_id).commit()
    with pytest.raises(ValidationException, match="has expired the snapshot meanwhile"):
        made.execute()
    assert not list(tables.local(table.location()).rglob("*.stats"))


def count(folder: Path) -> Any:
    with tables.sealed_catalog(folder) as catalog:
        made = stats.plan("hr.killed", catalog=catalog).execute(runner=Threads(1))
        return made.distinct


@pytest.mark.slow
def test_a_job_that_was_killed_anywhere_is_run_again(tmp_path: Path) -> None:
    with tables.sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.killed", SCHEMA, properties={"encryption.key-id": "hr"})
        table.append(rows(0, 20))
        table.append(rows(10, 30))
    whole = killed.run(count, tmp_path)
    assert whole.returned == (("id", 30), ("name", 7)), whole.error
    for at in killed.points(whole.operations, 20, seed=21):
        killed.run(count, tmp_path, at=at)
        with tables.sealed_catalog(tmp_path) as catalog:
            checked = verify.plan("hr.killed", catalog=catalog).execute()
            # An empty file that nothing names may be left.
            assert {each.code for each in checked.findings} <= {"foreign", "orphan", "catalog-behind", "unlogged"}, at
    assert count(tmp_path) == (("id", 30), ("name", 7))


@pytest.mark.parametrize("fault", ["disk full", "KMS down"])
def test_a_fault_leaves_the_table_as_it_was(tmp_path: Path, fault: Any) -> None:
    with tables.sealed_catalog(tmp_path) as catalog:
        table: Any = catalog.create_table("hr.killed", SCHEMA, properties={"encryption.key-id": "hr"})
        table.append(rows(0, 20))
        before = table.metadata_location
    assert killed.run(count, tmp_path, fault=fault, at=0).error
    with tables.sealed_catalog(tmp_path) as catalog:
        assert catalog.load_table("hr.killed").metadata_location == before


def test_tampered_statistics_are_refused_and_found(table: CatalogTable) -> None:
    result = stats.plan(table).execute()
    path = tables.local(result.location or "")
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.write_bytes(stored)
    with pytest.raises(IntegrityError, match="stats"):
        read_sketches(table.metadata, table.io, result.snapshot_id or 0)  # type: ignore[arg-type]
    assert [each.code for each in verify.plan(table).execute().findings] == ["altered"]


# -- removal --------------------------------------------------------------------------------------


def test_removal_takes_the_entry_the_key_and_the_file(table: CatalogTable) -> None:
    before = len(table.metadata.encryption_keys)
    written = stats.plan(table).execute()
    made = stats_removal.plan(table)
    assert made.changes
    removed = made.execute()
    assert removed.deleted == (written.location,)
    assert not tables.local(written.location or "").exists()
    assert not table.metadata.statistics
    assert len(table.metadata.encryption_keys) == before
    assert "no such statistics" in str(stats_removal.plan(table).execute())


def test_removal_of_plaintext_leaves_encrypted_statistics(table: CatalogTable) -> None:
    stats.plan(table).execute()
    assert stats_removal.plan(table, plaintext=True).files == ()


def test_removal_is_no_error_if_somebody_was_faster(catalog: EncryptedSqlCatalog, table: CatalogTable) -> None:
    stats.plan(table).execute()
    made = stats_removal.plan(catalog.load_table(table.name()))
    stats_removal.plan(table).execute()
    assert made.execute().exit_code == 0


def test_verify_authenticates_the_statistics(table: CatalogTable) -> None:
    stats.plan(table).execute()
    result = verify.plan(table).execute()
    assert result.exit_code == 0
    (kind,) = [kind for kind in result.tables[0].kinds if kind.kind == "statistics"]
    assert kind.checked_files == kind.files == 1
