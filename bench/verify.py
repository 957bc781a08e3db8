"""`verify` against a full read by pyarrow, against the bare cipher, on one and two workers of Spark, and its memory.

Times of one file are CPU times of this process with one thread: MB/s per core, whatever else the machine does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from bench.figures import Figure
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.avro.data_file import EncryptedAvroWriter
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.files.parquet.writer import EncryptedParquetWriter, write_options
from sealberg.format.ags1 import HEADER, STORED_BLOCK_SIZE
from sealberg.jobs.checks.files import FileTask, check_file
from sealberg.keys.file_key import new_file_key
from sealberg.metadata.manifest import DataFileV3

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.format.key_metadata import KeyMetadata

ROWS = 3_000_000
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "amount", DoubleType()),
    NestedField(3, "kind", StringType()),
    NestedField(4, "name", StringType()),
)


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        yield from _parquet(Path(folder), rounds)
        yield from _avro(Path(folder), rounds)
        yield from _many(Path(folder))
        yield from _large(Path(folder))
        yield from _spark(Path(folder))


def rows(count: int) -> pa.Table:
    import numpy as np

    some = np.random.default_rng(1)
    names = np.char.add("name-", some.integers(0, count, count).astype(str))
    kinds = np.char.add("kind-", some.integers(0, 50, count).astype(str))
    columns = {"id": np.arange(count), "amount": some.random(count), "kind": kinds, "name": names}
    return pa.table({name: pa.array(values) for name, values in columns.items()}).cast(schema_to_pyarrow(SCHEMA))


def entry(path: Path, file_format: FileFormat, count: int, key: KeyMetadata) -> DataFileV3:
    made = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=file_format,
        record_count=count,
        file_size_in_bytes=path.stat().st_size,
        key_metadata=key.encode(),
    )
    made.spec_id = 0
    return made


def task(file: DataFileV3) -> FileTask:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

    from sealberg.jobs.checks.claims import Columns

    columns = Columns({}, SCHEMA.highest_field_id)
    return FileTask("t", "data", 1, "full", PyArrowFileIO(), (file,), SCHEMA, UNPARTITIONED_PARTITION_SPEC, columns)


def checked(one: FileTask) -> None:
    report = check_file(one)
    assert report.problems == (), report
    assert report.failure is None, report


def cpu(acts: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least CPU time of each act; the acts take turns."""
    times: dict[str, float] = {}
    for _ in range(rounds):
        for name, act in acts.items():
            began = time.process_time()
            act()
            spent = time.process_time() - began
            times[name] = min(spent, times.get(name, spent))
    return times


def _parquet(folder: Path, rounds: int) -> Iterator[Figure]:
    table, path = rows(ROWS), folder / "one.parquet"
    options = write_options({})
    with EncryptedParquetWriter(path.open("wb"), table.schema, new_file_key(), options=options) as writer:
        writer.write(table)
    key = writer.written.key_metadata
    one = task(entry(path, FileFormat.PARQUET, ROWS, key))
    pa.set_cpu_count(1)

    def read() -> int:
        with EncryptedParquetReader(path, key) as reader:
            return sum(batch.num_rows for batch in reader.batches(threads=False))

    spent = cpu({"verify": lambda: checked(one), "read": read}, rounds)
    size = path.stat().st_size / 1e6
    note = f"{size:.0f} MB: {size / spent['verify']:.0f} MB/s against {size / spent['read']:.0f} MB/s"
    yield Figure(
        "verify of Parquet, every module, over a full pyarrow read",
        spent["read"] / spent["verify"],
        4.0,
        True,
        note=note,
    )


def _avro(folder: Path, rounds: int) -> Iterator[Figure]:
    table, path = rows(ROWS // 2), folder / "one.avro"
    with EncryptedAvroWriter(Ags1Writer(path.open("wb"), new_file_key()), SCHEMA, codec="null") as writer:
        writer.write(table)
    key = writer.close().key_metadata
    one = task(entry(path, FileFormat.AVRO, table.num_rows, key))
    gcm, prefix, out = AESGCM(key.encryption_key), key.aad_prefix or b"", memoryview(bytearray(STORED_BLOCK_SIZE))
    size, sealed = path.stat().st_size, memoryview(bytearray(STORED_BLOCK_SIZE))

    def bare() -> None:
        """The cipher alone, on the same file: both sides read it."""
        with path.open("rb", buffering=0) as file:
            file.seek(len(HEADER))
            for number in range(-(-size // STORED_BLOCK_SIZE)):
                block = sealed[: file.readinto(sealed)]
                gcm.decrypt_into(block[:12], block[12:], prefix + number.to_bytes(4, "little"), out[: len(block) - 28])

    spent = cpu({"verify": lambda: checked(one), "bare": bare}, rounds)
    note = f"{size / 1e6:.0f} MB: {size / spent['verify'] / 1e6:.0f} MB/s; both read the file"
    yield Figure(
        "verify of an AGS1 file (Avro) over the bare cipher", spent["bare"] / spent["verify"], 0.85, True, note=note
    )


def _many(folder: Path) -> Iterator[Figure]:
    """10,000 files in a process of its own: links to one file, which is the same work for verify."""
    found = _child(folder / "many", "threads", files=10_000, rows=20_000)
    note = f"{found['files']:.0f} files in {found['seconds']:.1f} s"
    yield Figure("peak memory of verify, 10,000 files", found["peak"], 300, False, "MiB", note)


def _large(folder: Path) -> Iterator[Figure]:
    """Files that have one page and one Avro file of hundreds of MB."""
    (folder / "large").mkdir()
    for what in ("make", "full", "deep"):
        done = _run("bench.verify_large", str(folder / "large"), what)
        if what != "make":
            found = json.loads(done.splitlines()[-1])
            note = f"{found['largest']} MiB in one page; checks not made: {found['not_checked']}"
            yield Figure(f"peak memory of verify ({what}), one huge page", found["peak"], 300, False, "MiB", note)


def _spark(folder: Path) -> Iterator[Figure]:
    """Files of a usual size: small ones would measure how fast the driver plans."""
    one, two = (
        _child(folder / f"spark{count}", f"local-cluster[{count},1,1024]", files=1600, rows=2_000_000)
        for count in (1, 2)
    )
    read = one["bytes"] / 1e9
    note = f"{one['seconds']:.1f} s against {two['seconds']:.1f} s for {read:.1f} GB, the session's start left out"
    yield Figure("two Spark workers over one", one["seconds"] / two["seconds"], 1.7, True, note=note)


def _child(folder: Path, where: str, *, files: int, rows: int) -> dict[str, float]:
    folder.mkdir()
    (folder / "spark-defaults.conf").write_text("spark.authenticate.secret a-secret-for-a-benchmark\n")
    done = _run("bench.verify_many", str(folder), where, str(files), str(rows), SPARK_CONF_DIR=str(folder))
    found: dict[str, Any] = json.loads(done.splitlines()[-1])
    return found


def _run(*module: str, **environment: str) -> str:
    """What a module of this folder prints, in a process of its own."""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=here).stdout
