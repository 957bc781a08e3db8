"""`stats --partitions`: numbers of each partition in an encrypted file, with its key in the table."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.transforms import BucketTransform, IdentityTransform

from kit.programs import killed
from kit.tables.lives import check_exact
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.cli.main import cli
from sealberg.errors import ConfigError
from sealberg.files.file_io import ENCRYPTED_MAGICS
from sealberg.files.locations import normal
from sealberg.jobs import erase, expire, orphans, partition_stats, shred, stats_removal, verify
from sealberg.table.statistics import read_partition_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("id", pa.int64()), ("town", pa.string())])
NOW = timedelta(0)


def rows(town: str, *ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "town": [town] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


def partitioned(catalog: Any, name: str = "hr.people") -> Any:
    properties = {"encryption.key-id": "hr", "write.delete.mode": "merge-on-read"}
    table = catalog.create_table(name, SCHEMA, properties=properties)
    with table.update_spec() as change:
        change.add_field("town", IdentityTransform(), "town")
    table.append(rows("Bonn", 1, 2, 3))
    table.append(rows("Aachen", 4, 5))
    table.append(rows("Bonn", 6))
    table.delete("id = 2")
    return table


def read(table: Any, snapshot: int | None = None) -> list[dict[str, Any]]:
    table.refresh()
    found = read_partition_statistics(table.metadata, table.io, snapshot or table.metadata.current_snapshot_id)
    assert found is not None
    listed: list[dict[str, Any]] = found.to_pylist()
    return listed


def test_it_counts_rows_files_and_vectors_of_each_partition(catalog: Any) -> None:
    table = partitioned(catalog)
    done = partition_stats.plan(table).execute()
    assert done.partitions == 2
    aachen, bonn = read(table)
    snapshots = table.metadata.snapshots
    sizes = [file.file.file_size_in_bytes for file in table.scan().plan_files() if file.file.partition[0] == "Bonn"]
    assert bonn == {
        "partition": {"town": "Bonn"},
        "spec_id": 1,
        "data_record_count": 4,
        "data_file_count": 2,
        "total_data_file_size_in_bytes": sum(sizes),
        "position_delete_record_count": 1,
        "position_delete_file_count": 0,
        "equality_delete_record_count": 0,
        "equality_delete_file_count": 0,
        "total_record_count": None,
        "last_updated_at": snapshots[-1].timestamp_ms,
        "last_updated_snapshot_id": snapshots[-1].snapshot_id,
        "dv_count": 1,
    }
    assert (aachen["partition"], aachen["data_record_count"]) == ({"town": "Aachen"}, 2)
    assert aachen["last_updated_snapshot_id"] == snapshots[1].snapshot_id


def test_no_byte_is_plaintext_and_the_entry_has_nothing_that_java_does_not_know(catalog: Any) -> None:
    table = partitioned(catalog)
    path = Path(normal(str(partition_stats.plan(table).execute().location)))
    content = path.read_bytes()
    assert content[:4] in ENCRYPTED_MAGICS
    assert b"Bonn" not in content
    assert b"PAR1" not in content
    (entry,) = table.refresh().metadata.partition_statistics
    assert entry.model_dump(by_alias=True, exclude_none=True).keys() == {
        "snapshot-id",
        "statistics-path",
        "file-size-in-bytes",
    }
    assert entry.file_size_in_bytes == len(content)


def test_a_snapshot_is_counted_once_and_another_snapshot_again(catalog: Any) -> None:
    table = partitioned(catalog)
    first = partition_stats.plan(table).execute()
    again = partition_stats.plan(table)
    assert not again.changes
    assert (again.execute().location, again.execute().partitions) == (first.location, 0)
    older = partition_stats.plan(table, snapshot=table.metadata.snapshots[0].snapshot_id).execute()
    assert [row["partition"]["town"] for row in read(table, older.snapshot_id)] == ["Bonn"]
    assert len(table.metadata.partition_statistics) == 2


def test_specs_that_changed_share_one_partition_type(catalog: Any) -> None:
    table = partitioned(catalog)
    with table.update_spec() as change:
        change.remove_field("town")
        change.add_field("id", BucketTransform(4), "shard")
    table.append(rows("Celle", 9))
    partition_stats.plan(table).execute()
    found = read(table)
    assert sorted(found[0]["partition"]) == ["shard", "town"]
    assert [(row["spec_id"], row["partition"]["town"]) for row in found] == [(2, None), (1, "Aachen"), (1, "Bonn")]


def test_what_cannot_be_counted_is_refused(catalog: Any) -> None:
    plain = catalog.create_table("hr.flat", SCHEMA, properties={"encryption.key-id": "hr"})
    with pytest.raises(ConfigError, match="Table must be partitioned"):
        partition_stats.plan(plain)
    table = partitioned(catalog)
    with pytest.raises(ConfigError, match="no snapshot 7"):
        partition_stats.plan(table, snapshot=7)


def test_verify_expire_orphans_and_removal_know_the_file(catalog: Any) -> None:
    table = partitioned(catalog)
    old = str(partition_stats.plan(table, snapshot=table.metadata.snapshots[0].snapshot_id).execute().location)
    kept = str(partition_stats.plan(table).execute().location)
    assert verify.plan(table).execute().findings == ()
    (done,) = expire.plan(table, older_than=NOW).execute().tables
    assert done.removed.files["statistics"] == 1
    assert done.keys == len(done.snapshot_ids) + 1
    assert not Path(normal(old)).exists()
    assert not orphans.plan(table, older_than=NOW, allow_recent=True).found.files
    assert [file.statistics_path for file in table.refresh().metadata.partition_statistics] == [kept]
    check_exact(table)
    altered = bytearray(Path(normal(kept)).read_bytes())
    altered[40] ^= 1
    Path(normal(kept)).write_bytes(altered)
    assert [each.file for each in verify.plan(table).execute().findings] == [kept]
    stats_removal.plan(table).execute()
    assert not table.refresh().metadata.partition_statistics
    assert verify.plan(table).execute().findings == ()


def test_erased_and_shredded_tables_keep_no_partition_statistics(catalog: Any) -> None:
    table = partitioned(catalog)
    path = Path(normal(str(partition_stats.plan(table).execute().location)))
    assert erase.plan(table, where="id = 1").execute().is_proved
    assert not path.exists()
    assert not table.refresh().metadata.partition_statistics
    partition_stats.plan(table).execute()
    assert shred.plan("hr.people", catalog=catalog).execute().exit_code == 0
    assert not table.refresh().metadata.partition_statistics
    assert len(table.metadata.encryption_keys) == 0


def work(folder: Path) -> str | None:
    with sealed_catalog(folder) as catalog:
        return partition_stats.plan("hr.people", catalog=catalog).execute().location


def test_a_job_that_was_killed_anywhere_is_run_again(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = partitioned(catalog)
        total = killed.run(work, tmp_path).operations
        stats_removal.plan(table.refresh()).execute()
        for at in killed.points(total, 5, seed=8):
            killed.run(work, tmp_path, at=at)
            assert killed.run(work, tmp_path).returned is not None
            assert len(read(table)) == 2
            stats_removal.plan(table).execute()


def test_the_command_line(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    partitioned(catalog)
    own = {"TYPE": "sql", "URI": catalog.properties["uri"], "WAREHOUSE": catalog.properties["warehouse"]}
    kms = {"ENCRYPTION__KMS_TYPE": "memory", "ENCRYPTION__KMS__MEMORY__KEY__HR": MASTER_KEY}
    for name, value in {**own, **kms}.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SEALED__{name}", value)
    call = ["stats", "hr.people", "--partitions", "--catalog", "sealed"]
    done = CliRunner().invoke(cli, [*call, "--yes"])
    assert "2 partitions" in done.output, done.output
    refused = CliRunner().invoke(cli, [*call, "--columns", "id"])
    assert refused.exit_code == 2
