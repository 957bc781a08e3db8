"""A metadata.json of ten thousand snapshots and keys: loaded, checked and committed, against Iceberg's own parser.

ours    catalog.load_table: the catalog's record, the file, its hash, JSON, the model, the keyring; the current snapshot
and     the same with all snapshots, log entries and keys as objects, which are made when somebody asks for them
Java    TableMetadataParser.read of the same file, in a warm JVM (LoadLoop.java); neither hash nor catalog
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from bench.figures import Figure, best
from bench.tables import _catalog, _make
from kit.programs.iceberg_java import JARS
from kit.programs.maven import bring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SNAPSHOTS: Final = 10_000
WARM: Final = 10
ROW: Final = pa.table({"id": pa.array([1]), "note": pa.array(["a"])})


def figures(rounds: int) -> Iterator[Figure]:
    rounds = max(5, rounds)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        catalog = _catalog(folder)
        place = long_metadata(catalog, "long", SNAPSHOTS)
        with _java(place) as load:
            spent = {"load": min(_processor(catalog, _current) for _ in range(rounds))}
            spent["whole"] = min(_processor(catalog, _whole) for _ in range(rounds))
            if load is not None:
                spent["java"] = min(load() for _ in range(rounds))
        if "java" in spent:
            milliseconds = {name: f"{each * 1000:.0f} ms" for name, each in spent.items()}
            note = (
                f"{milliseconds['load']}, Java {milliseconds['java']}, {_megabytes(place)}; "
                f"{milliseconds['whole']} with all objects made"
            )
            words = f"load of a metadata.json with {SNAPSHOTS:,} snapshots and keys, over Java's parser, processor time"
            yield Figure(words, spent["load"] / spent["java"], 1.5, False, note=note)
        yield from _commits(catalog, rounds)
        yield _size(folder, catalog)


def _processor(catalog: Any, use: Callable[[Any], object]) -> float:
    began = time.thread_time()
    use(catalog.load_table("b.long").metadata)
    return time.thread_time() - began


def _current(metadata: Any) -> None:
    assert metadata.current_snapshot().sequence_number == SNAPSHOTS


def _whole(metadata: Any) -> None:
    assert len(metadata.snapshots) == len(metadata.snapshot_log) == len(metadata.encryption_keys.entries) - 1


def _commits(catalog: Any, rounds: int) -> Iterator[Figure]:
    """A commit of one row; the time grows with the snapshots, and with nothing else."""
    sizes = (100, 1_000, 5_000, 10_000)
    spent = {}
    for size in sizes:
        long_metadata(catalog, f"c{size}", size)
        table = catalog.load_table(f"b.c{size}")
        spent[size] = best({"commit": partial(table.append, ROW)}, max(3, rounds // 2))["commit"]
    grown = (spent[sizes[-1]] - spent[100]) / max(spent[5_000] - spent[100], 1e-9)
    note = ", ".join(f"{size:,}: {spent[size] * 1000:.0f} ms" for size in sizes)
    points = tuple((float(size), spent[size] * 1000) for size in sizes)
    words = "commit of one file, what 10,000 snapshots add over what 5,000 add"
    yield Figure(words, grown, 2.3, False, note=note, points=points)


def _size(folder: Path, catalog: Any) -> Figure:
    """The text for one more snapshot, over PyIceberg's for a version 2 table."""
    plain = SqlCatalog("plain", uri=f"sqlite:///{folder}/plain.db", warehouse=folder.as_uri())
    plain.create_namespace("b")
    grown = []
    for made in (_make(catalog, "small", ROW.schema, sealed=True), plain.create_table("b.small", ROW.schema)):
        sizes = []
        for _ in range(2):
            made.append(ROW)
            text = Path(made.metadata_location.removeprefix("file://")).read_bytes()
            found = json.loads(text)
            # One metadata-log entry for each commit, up to 100, is not for the snapshot.
            sizes.append(len(text) - len(json.dumps(found["metadata-log"], separators=(",", ":"))))
        grown.append(sizes[1] - sizes[0])
    note = f"{grown[0]} bytes with the snapshot's key, PyIceberg {grown[1]}"
    return Figure(
        "metadata.json for each snapshot, over PyIceberg's version 2", grown[0] / grown[1], 2.0, False, note=note
    )


def long_metadata(catalog: Any, name: str, snapshots: int) -> Path:
    """Register a table whose history is one append, repeated; return the file of its metadata."""
    table = _make(catalog, f"{name}_seed", ROW.schema, sealed=True)
    table.append(ROW)
    table.append(ROW)
    place = Path(table.metadata_location.removeprefix("file://"))
    raw = json.loads(place.read_bytes())
    kek, first_key, last_key = raw["encryption-keys"]
    first, last = raw["snapshots"]
    keys, made, log = [kek], [], []
    begun = first["timestamp-ms"] - snapshots
    for number in range(1, snapshots + 1):
        is_last = number == snapshots
        one = {**(last if number > 1 else first), "sequence-number": number, "timestamp-ms": begun + number}
        one["snapshot-id"] = last["snapshot-id"] if is_last else number
        if number > 1:
            one["parent-snapshot-id"] = number - 1
        one["first-row-id"] = number - 1
        if not is_last:
            fresh = base64.b64encode(os.urandom(12)).decode()
            wrapped = base64.b64encode(os.urandom(len(base64.b64decode(first_key["encrypted-key-metadata"])))).decode()
            keys.append({**first_key, "key-id": fresh, "encrypted-key-metadata": wrapped})
            one["key-id"] = fresh
        made.append(one)
        log.append({"timestamp-ms": one["timestamp-ms"], "snapshot-id": one["snapshot-id"]})
    keys.append(last_key)
    raw |= {"encryption-keys": keys, "snapshots": made, "snapshot-log": log, "next-row-id": snapshots}
    raw["last-sequence-number"] = snapshots
    raw["properties"] |= {"history.expire.min-snapshots-to-keep": "1"}
    long = place.with_name(f"00002-{name}.metadata.json")
    long.write_text(json.dumps(raw, separators=(",", ":")))
    catalog.register_table(f"b.{name}", long.as_uri())
    return long


def _megabytes(place: Path) -> str:
    return f"{place.stat().st_size / 1e6:.1f} MB"


@contextmanager
def _java(place: Path) -> Iterator[Callable[[], float] | None]:
    """An act that loads the file with Iceberg's parser in a running JVM, and returns the seconds of its thread."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None or not shutil.which("javac"):
        yield None
        return
    with tempfile.TemporaryDirectory() as name:
        classes = ":".join([*map(str, bring(*JARS)), f"{Path(spark.origin).parent}/jars/*"])
        source = Path(__file__).with_name("LoadLoop.java")
        subprocess.run(["javac", "-cp", classes, "-d", name, source], check=True)
        command = ["java", "-Xmx2g", "-cp", f"{name}:{classes}", "LoadLoop", str(place)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
            assert java.stdin is not None

            def load() -> float:
                print("load", file=java.stdin, flush=True)
                return float(java.stdout.readline())  # type: ignore[union-attr]

            for _ in range(WARM):
                load()
            yield load
            java.stdin.close()
