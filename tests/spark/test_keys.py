"""Keys and rows are where they belong and nowhere else; files that are not what was written are refused."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from kit.programs.spark import KEYED, MASTER_KEY
from kit.tables.parquet_parts import page_indexes
from kit.tables.small_tables import SmallTable
from sealberg.files.file_io import KeyedLocation
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.keys.kms.memory import MemoryKms
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit

CANARY = "canary-5f2d"


def table_of(kit: SparkKit, rows: int = 100, properties: str = "") -> str:
    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr'{properties})")
    kit.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, concat('{CANARY}-', id) FROM range({rows})")
    return name


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_no_key_and_no_row_is_left_where_others_can_read(kit: SparkKit, form: str) -> None:
    """Avro files are read and written by a process beside the task, of which others see how it was called."""
    kit.spark.sparkContext.setLogLevel("DEBUG")
    try:
        with watched_processes(kit, "sealberg.spark.worker") as called:
            name = table_of(kit, 2000, f", 'write.format.default' = '{form}'")
            secrets = secrets_of(kit, name)
            # More rows than the buffer of a sort takes, so that it spills.
            kit.spark.conf.set("spark.sql.sortMergeJoinExec.buffer.in.memory.threshold", "10")
            kit.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
            rows = kit.sql(f"SELECT count(*) FROM {name} a JOIN {name} b ON a.name = b.name")
            kit.sql(f"DELETE FROM {name} WHERE id % 2 = 0")
        shown = repr(kit.sql(f"EXPLAIN EXTENDED SELECT name FROM {name} WHERE id > 5"))
    finally:
        kit.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        kit.spark.conf.unset("spark.sql.sortMergeJoinExec.buffer.in.memory.threshold")
        kit.spark.sparkContext.setLogLevel("ERROR")
    assert rows == [(2000,)]
    assert {path.suffix for path in kit.data_files(name)} == {f".{form}"}
    # One that an earlier test has left to be used again may be there for the other format, too.
    assert called or form == "parquet", "nobody was beside the task"
    forbidden = {text for secret in secrets | secrets_of(kit, name) for text in spellings(secret)}
    assert kit.log.stat().st_size > 100_000, "nothing was logged, so nothing was searched"
    for found, where in ((kit.log.read_bytes(), "log"), (shown.encode(), "plan"), (b"".join(called), "processes")):
        assert not [text for text in forbidden if text in found], where
        assert f"{CANARY}-17".encode() not in found, where
    for folder in (kit.event_log, kit.folder / "local", kit.warehouse):
        for path in files_in(folder):
            data = path.read_bytes()
            assert not [text for text in forbidden if text in data], path
            # The event log has the text of the statement, which is the user's own; the rows are numbered.
            assert f"{CANARY}-17".encode() not in data, path
            assert CANARY.encode() not in data or folder == kit.event_log, path


PAGES = (
    "environment",
    "jobs",
    "stages?details=true",
    "allexecutors",
    "sql?details=true&planDescription=true&length=1000",
)


def test_neither_spills_nor_the_pages_of_spark_show_rows_or_keys(kit: SparkKit) -> None:
    name = table_of(kit, 30_000)
    kit.spark.conf.set("spark.sql.windowExec.buffer.in.memory.threshold", "10")
    kit.spark.conf.set("spark.sql.windowExec.buffer.spill.threshold", "5000")
    try:
        with watched(kit.folder / "local") as seen:
            found = kit.sql(
                f"SELECT count(*), max(most) FROM (SELECT id, max(name) OVER (PARTITION BY id % 2) AS most FROM {name})"
            )
    finally:
        kit.spark.conf.unset("spark.sql.windowExec.buffer.spill.threshold")
        kit.spark.conf.unset("spark.sql.windowExec.buffer.in.memory.threshold")
    kit.sql(f"UPDATE {name} SET id = -id WHERE name LIKE '%-7'")
    assert found == [(30_000, f"{CANARY}-9999")]
    pages = {page: fetched(kit, page) for page in PAGES}
    stages = json.loads(pages["stages?details=true"])
    assert max(stage["diskBytesSpilled"] for stage in stages) > 100_000, "nothing was spilled, so nothing was searched"
    assert max(stage["shuffleWriteBytes"] for stage in stages) > 100_000
    assert sum(map(len, seen.values())) > 100_000, "no file of a shuffle or a spill was seen"
    assert name.encode() in pages["sql?details=true&planDescription=true&length=1000"]
    secrets = [bytes.fromhex(MASTER_KEY), *(file.key or b"" for file in kit.planned_files(name))]
    forbidden = [text for secret in secrets for text in spellings(secret)]
    shown = kit.spark.sql(f"SELECT name FROM {name} WHERE id > 5")._jdf.queryExecution().toString()
    for where, data in {**pages, **seen, "plan": shown.encode()}.items():
        assert not [text for text in forbidden if text in data], where
        assert not re.search(rb"canary-5f2d-\d", data), where  # the statement itself has no number


@contextmanager
def watched(folder: Path) -> Iterator[dict[str, bytes]]:
    """What the files in a folder held while something went on; the most of each."""
    seen: dict[str, bytes] = {}

    def look() -> None:
        for path in files_in(folder):
            with suppress(OSError):
                if path.stat().st_size > len(seen.get(str(path), b"")):
                    seen[str(path)] = path.read_bytes()

    with again_and_again(look):
        yield seen


@contextmanager
def watched_processes(kit: SparkKit, program: str) -> Iterator[set[bytes]]:
    """The command lines and environments of processes of a program that Spark's own has started."""
    from pathlib import Path

    jvm: Any = kit.spark.sparkContext._jvm
    parent = f"PPid:\t{jvm.java.lang.ProcessHandle.current().pid()}\n"
    seen: set[bytes] = set()

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                called = (path / "cmdline").read_bytes()
                if program.encode() in called and parent in (path / "status").read_text():
                    seen.add(called + (path / "environ").read_bytes())

    with again_and_again(look):
        yield seen


@contextmanager
def again_and_again(look: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def fetched(kit: SparkKit, page: str) -> bytes:
    context = kit.spark.sparkContext
    port = str(context.uiWebUrl).rpartition(":")[2]
    address = f"http://127.0.0.1:{port}/api/v1/applications/{context.applicationId}/{page}"
    with urllib.request.urlopen(address, timeout=60) as answer:
        return bytes(answer.read())


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def secrets_of(kit: SparkKit, name: str) -> set[bytes]:
    """The master key, the keys of the files, and what a process beside the task is told of them."""
    files = [task.file.file_path for task in kit.table(name).scan().plan_files()]
    keys = {file.keys.encryption_key for file in files if isinstance(file, KeyedLocation)}
    assert len(keys) == len(files) > 0
    work = {file.worker_payload for file in kit.planned_files(name) if file.worker_payload is not None}
    return {bytes.fromhex(MASTER_KEY), *keys, *work}


def spellings(secret: bytes) -> list[bytes]:
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)[:-2]]


def test_a_query_over_a_thousand_files_asks_the_kms_once_and_python_for_one_plan(
    kit: SparkKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sealberg.spark
    from sealberg.spark.driver.backend import Backend

    small = SmallTable(tmp_path, Schema(NestedField(1, "id", LongType())))
    small.snapshot([small.parquet([{"id": one}]) for one in range(1000)])
    name = kit.fresh("k")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    sealberg.spark.install(kit.spark)  # anew: nothing is cached
    asked: list[object] = []
    verbs: list[str] = []
    real, call = MemoryKms.unwrap, Backend.call

    def counted(self: MemoryKms, *arguments: Any) -> bytes:
        asked.append(arguments)
        return real(self, *arguments)

    def heard(self: Backend, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        verbs.append(verb)
        return call(self, verb, arguments)

    monkeypatch.setattr(MemoryKms, "unwrap", counted)
    monkeypatch.setattr(Backend, "call", heard)
    assert kit.sql(f"SELECT count(id), sum(id) FROM {name} WHERE id >= 0") == [(1000, 499500)]
    assert len(asked) == 1
    assert verbs.count("scan-request") == 1
    assert set(verbs) == {"load-table", "scan-request"}


def test_a_file_that_was_altered_is_refused(kit: SparkKit) -> None:
    name = table_of(kit)
    (file,) = kit.data_files(name)
    whole = file.read_bytes()
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    counter = whole[:end] + b"\x1c\x2c" + whole[end + 2 :]
    cases = {
        "failed authentication": whole[:40] + bytes([whole[40] ^ 1]) + whole[41:],
        "bytes, ": whole[:-1],
        "plaintext Parquet in the place": b"PAR1" + whole[4:-4] + b"PAR1",
        "not an encrypted Parquet file": whole[:-4] + b"XXXX",
        "without authentication": counter,
        "does not begin with the name": whole[:end] + b"\x1c\x3c" + whole[end + 2 :],
        "does not fit into": whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
    }
    for text, altered in cases.items():
        file.write_bytes(altered)
        with pytest.raises(Exception, match="FileIntegrityException") as caught:
            kit.sql(f"SELECT sum(id + length(name)) FROM {name}")
        assert text in str(caught.value), text
        assert file.name in str(caught.value)
    file.write_bytes(whole)
    assert kit.sql(f"SELECT count(name) FROM {name}") == [(100,)]


@pytest.mark.parametrize("writer", ["spark", "python"])
def test_an_altered_page_index_is_refused_by_who_uses_it(kit: SparkKit, writer: str) -> None:
    name = table_of(kit, rows=100 if writer == "spark" else 0)
    if writer == "python":
        kit.table(name).append(pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]}))
    (task,) = kit.table(name).scan().plan_files()
    assert isinstance(task.file.file_path, KeyedLocation)
    (file,) = kit.data_files(name)
    whole = file.read_bytes()
    with EncryptedParquetReader(whole, task.file.file_path.keys) as reader:
        indexes = page_indexes(whole, reader.metadata)

    def answered(at: int) -> str:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            return str(kit.sql(f"SELECT id FROM {name} WHERE id = 57"))
        except Exception as error:
            return str(error)

    answers = [answered(at) for at in range(indexes.start, indexes.stop, 11)]
    refused = [text for text in answers if "FileIntegrityException" in text and file.name in text]
    assert len(refused) > 3
    assert set(answers) - set(refused) <= {"[(57,)]"}, "of columns that the filter is not about"
    file.write_bytes(whole)


def test_files_do_not_take_the_place_of_each_other(kit: SparkKit) -> None:
    one, other = table_of(kit), table_of(kit)
    (first,), (second,) = kit.data_files(one), kit.data_files(other)
    assert first.stat().st_size == second.stat().st_size
    second.write_bytes(first.read_bytes())
    with pytest.raises(Exception, match="failed authentication"):
        kit.sql(f"SELECT sum(length(name)) FROM {other}")


def test_metadata_that_nobody_vouches_for_are_refused(kit: SparkKit) -> None:
    name = table_of(kit)
    location = kit.table(name).metadata_location.removeprefix("file://")
    from pathlib import Path

    Path(location).write_text(Path(location).read_text().replace("total-records", "total-recordz"))
    with pytest.raises(Exception, match=r"TrustError.*might have been modified"):
        kit.sql(f"SELECT * FROM {name}")


def test_a_missing_master_key_is_named(kit: SparkKit) -> None:
    name = kit.fresh()
    with pytest.raises(Exception, match=r"KeyNotFoundError.*nobody is not found; existing keys: hr"):
        kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'nobody')")
    assert not kit.spark.catalog.tableExists(name)


def test_a_task_that_fails_once_leaves_nothing_behind(kit: SparkKit, tmp_path: Path) -> None:
    """local[2] has no second attempts, so the write is cut off in the middle, and then taken again."""
    from pyspark.sql.functions import udf

    name = kit.fresh()
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEYED}")
    mark = str(tmp_path / "failed")

    @udf("bigint")
    def once(value):  # type: ignore[no-untyped-def]  # Spark reads annotations, and not as texts
        from pathlib import Path

        if value == 15 and not Path(mark).exists():
            Path(mark).touch()
            raise ValueError("once")
        return value

    frame = kit.spark.range(20, numPartitions=2).select(once("id").alias("id"))
    with pytest.raises(Exception, match="once"):
        frame.writeTo(name).append()
    data = kit.warehouse / name.replace(".", "/").removeprefix("prod/") / "data"
    deadline = time.monotonic() + 60
    while files_in(data) and time.monotonic() < deadline:
        time.sleep(0.1)  # the job has failed, and its other task is being killed
    assert not files_in(data)
    frame.writeTo(name).append()
    assert kit.sql(f"SELECT count(*), count(DISTINCT id) FROM {name}") == [(20, 20)]
    assert len(kit.data_files(name)) == len(kit.planned_files(name))


def test_a_conflict_at_commit_changes_nothing(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    from sealberg.spark.driver import commits as writes

    name = table_of(kit, properties=", 'write.delete.mode' = 'merge-on-read'")
    real = writes.Writes._merge_on_read

    def late(self: writes.Writes, *arguments: object) -> object:
        monkeypatch.setattr(writes.Writes, "_merge_on_read", real)
        kit.table(name).delete("id == 2")
        return real(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(writes.Writes, "_merge_on_read", late)
    with pytest.raises(Exception, match="concurrently added deletes"):
        kit.sql(f"DELETE FROM {name} WHERE id = 1")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(99,)]
    assert kit.sql(f"DELETE FROM {name} WHERE id = 1") == []
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(98,)]


def test_avro_files_and_vectors_that_were_altered_are_refused(kit: SparkKit, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()))
    small = SmallTable(tmp_path, schema)
    rows: list[dict[str, Any]] = [{"id": one} for one in range(10)]
    avro, parquet = small.avro(rows), small.parquet(rows)
    small.snapshot(avro, parquet)
    (vector,) = small.vector({parquet: [1]})
    equal = small.equality_deletes([{"id": 3}], schema, 1)
    small.snapshot(vector, equal)
    name = kit.fresh("k")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(17,)]
    for file in (avro, vector, equal):
        place = file_of(str(file.file_path))
        whole = place.read_bytes()
        flipped = whole[:-20] + bytes([whole[-20] ^ 1]) + whole[-19:]
        for text, altered in {
            "IntegrityError|failed authentication|tag": flipped,
            "bytes|length|whole|short": whole[:-1],
            "AGS1|PARE|authentic|plaintext|not": b"Obj\x01" + whole[4:-4] + b"PAR1",
        }.items():
            place.write_bytes(altered)
            cache.clear()
            with pytest.raises(Exception, match=text) as caught:
                kit.sql(f"SELECT sum(id) FROM {name}")
            assert place.name in str(caught.value), altered[:4]
            assert "Error: " in str(caught.value) or "FileIntegrityException: " in str(caught.value)
        place.write_bytes(whole)
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(17,)]


def file_of(location: str) -> Path:
    from pathlib import Path

    return Path(location.removeprefix("file://"))


def test_a_wrong_key_and_a_missing_kms_are_told_in_a_sentence(kit: SparkKit, tmp_path: Path) -> None:
    import sealberg
    import sealberg.spark

    metadata = kit.table(table_of(kit, 5)).metadata_location
    place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": MASTER_KEY}
    wrong = {**kms, "encryption.kms.memory.key.hr": "00" * 16}
    cases = {
        "wrong": ({**place, **wrong}, "WrongKeyError: .* does not decrypt with this master key"),
        "none": (place, "encryption.kms"),
    }
    for catalog, (given, text) in cases.items():
        right = sealberg.load_catalog(catalog, **place, **kms)
        right.create_namespace("hr")
        right.register_table("hr.t", metadata)
        kit.spark.conf.set(f"spark.sql.catalog.{catalog}", "sealberg.catalog.EncryptedCatalog")
        sealberg.spark.install(kit.spark, {catalog: given})
        with pytest.raises(Exception, match=text) as caught:
            kit.sql(f"SELECT * FROM {catalog}.hr.t")
        assert type(caught.value).__name__ == "AnalysisException"
        assert "Traceback" not in str(caught.value)
        kit.spark.conf.unset(f"spark.sql.catalog.{catalog}")


def test_storage_with_two_faces_gains_nothing(kit: SparkKit, tmp_path: Path) -> None:
    """The end of the file names the algorithm; the name that was checked is the one that is used."""
    from pathlib import Path

    small = SmallTable(tmp_path, Schema(NestedField(1, "id", LongType())))
    place = tmp_path / "file-00001.parquet"
    small.snapshot(small.parquet([{"id": one} for one in range(10)], file_path=f"twofaced:{place}"))
    whole = place.read_bytes()
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    other = Path(f"{place}.other")
    other.write_bytes(whole[:end] + b"\x1c\x2c" + whole[end + 2 :])  # pages without authentication
    name = kit.fresh("k")
    kit.catalog.register_table(name.removeprefix("prod."), small.write_metadata())
    assert kit.sql(f"SELECT sum(id) FROM {name}") == [(45,)], "the face that was looked at"
    with pytest.raises(Exception, match="without authentication"):
        kit.sql(f"SELECT sum(id) FROM {name}")  # by now it shows the other one only
