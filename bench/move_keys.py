"""Other keys for a table: rekey beside Java's rewrite_data_files, change-master beside one writing of its manifests."""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.figures import Figure, best
from bench.verify_many import SCHEMA
from kit.tables.tables import local
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.jobs import change_master, rekey
from sealberg.metadata.manifest import DataFileV3
from sealberg.metadata.manifest_writer import ManifestWriter, write_manifest_list
from sealberg.pyiceberg_private import values_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY: Final = 10_000
MANIFESTS: Final = 10


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield _change_master(Path(folder), rounds)
    with tempfile.TemporaryDirectory() as folder:
        yield _rekey(Path(folder), max(2, rounds // 3))


# -- change-master ----------------------------------------------------------------------------------


def _change_master(folder: Path, rounds: int) -> Figure:
    """The whole job, with its plan, the KMS and the exchange of names; without the drop of the old table."""
    with _catalog(folder) as catalog:
        _make_many(catalog)
        key, spent = "hr", dict[str, float]()
        for _ in range(rounds):
            key = "other" if key == "hr" else "hr"
            began = time.perf_counter()
            change_master.plan("b.many", key, catalog=catalog).execute()
            spent["ours"] = min(spent.get("ours", 99.0), time.perf_counter() - began)
            change_master.plan("b.many", key, catalog=catalog, drop_old=True).execute()
            manifests = _entries(catalog.load_table("b.many"))
            began = time.perf_counter()
            _write_once(catalog.load_table("b.many"), manifests)
            spent["once"] = min(spent.get("once", 99.0), time.perf_counter() - began)
    note = f"{spent['ours'] * 1000:.0f} ms, manifests once {spent['once'] * 1000:.0f} ms"
    name = f"change-master of {MANY:,} files, over one writing of their manifests"
    return Figure(name, spent["ours"] / spent["once"], 1.5, False, note=note)


def _catalog(folder: Path) -> EncryptedSqlCatalog:
    keys = {f"encryption.kms.memory.key.{name}": number * 16 for name, number in (("hr", "00"), ("other", "01"))}
    place = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}
    return EncryptedSqlCatalog("bench", **place, **{"encryption.kms-type": "memory"}, **keys)


def _make_many(catalog: Any) -> None:
    """A table whose files are links to one file under one key, in ten manifests."""
    import pyarrow as pa

    catalog.create_namespace("b")
    own = {"encryption.key-id": "hr", "commit.manifest-merge.enabled": "false"}
    table: Any = catalog.create_table("b.many", SCHEMA, properties=own)
    table.append(pa.table({"id": pa.array(range(1000), pa.int64())}))
    (first,) = (task.file for task in table.scan().plan_files())
    path = local(first.file_path)
    for part in range(MANIFESTS):
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for number in range(MANY // MANIFESTS):
                copy = path.with_name(f"{part:02}-{number:05}.parquet")
                os.link(path, copy)
                made = DataFileV3(*values_of(first))
                made[1], made.first_row_id, made.spec_id = f"file://{copy}", None, 0
                append.append_data_file(made)


def _entries(table: Any) -> list[list[Any]]:
    lines = table.current_snapshot().manifests(table.io)
    return [line.fetch_manifest_entry(table.io, discard_deleted=False) for line in lines]


def _write_once(table: Any, manifests: list[list[Any]]) -> None:
    locations, metadata = table.location_provider(), table.metadata
    lines = []
    for entries in manifests:
        writer = ManifestWriter(
            table.io,
            locations.new_metadata_location(f"{uuid.uuid4()}-m0.avro"),
            table.encryption.new_file_key(),
            spec=metadata.spec(),
            schema=metadata.schema(),
            snapshot_id=1,
        )
        for entry in entries:
            writer.keep(entry)
        lines.append(writer.close())
    where = locations.new_metadata_location(f"snap-1-1-{uuid.uuid4()}.avro")
    key = table.encryption.new_file_key()
    write_manifest_list(
        table.io, where, key, lines, snapshot_id=1, parent_snapshot_id=None, sequence_number=1, first_row_id=0
    )


# -- rekey --------------------------------------------------------------------------------------------


def _rekey(folder: Path, rounds: int) -> Figure:
    """Two tables that Java wrote, with the same rows in the same files; two cores on both sides."""
    from bench.spark_session import make_view, session
    from sealberg.spark.job_runner import SparkRunner

    with session(folder) as bench:
        make_view(bench)
        for name in ("theirs", "mine"):
            bench.spark.sql(f"INSERT INTO {bench.create('java', name)} SELECT * FROM rows")
        runner = SparkRunner(bench.spark)
        files = bench.shared.load_table("b.theirs").inspect.files()
        size = sum(files["file_size_in_bytes"].to_pylist())
        # Groups of one file, two at a time: both cores are busy, and the files stay as many as they were.
        each = size // len(files) + 1
        options = {
            "rewrite-all": "true",
            "target-file-size-bytes": each,
            "max-file-group-size-bytes": each,
            "max-concurrent-file-group-rewrites": 2,
        }
        given = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
        spent = best(
            {
                "Java": lambda: bench.spark.sql(
                    f"CALL java.system.rewrite_data_files(table => 'b.theirs', options => map({given}))"
                ).collect(),
                "ours": lambda: rekey.plan("b.mine", catalog=bench.shared).execute(runner=runner),
            },
            rounds,
        )
    rate = size / spent["ours"] / (1 << 20)
    note = f"{spent['ours']:.2f} s ({rate:.0f} MiB/s), Java {spent['Java']:.2f} s, {size / (1 << 20):.0f} MiB"
    return Figure(
        "rekey, over Java's rewrite_data_files of the same table", spent["ours"] / spent["Java"], 0.25, False, note=note
    )
