"""Tables in an object store: every statement, few requests, settings that reach the tasks and stay secret."""

from __future__ import annotations

import gc
import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED, MASTER_KEY
from kit.programs.spark_lake import (
    DATA,
    SECRET,
    TOKEN,
    by_tasks,
    catalog_of,
    header,
    open_lake,
    properties_of,
    session_settings,
)
from kit.servers.store_servers import s3_client
from spark.test_keys import PAGES, fetched, files_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit
    from kit.programs.spark_lake import Lake


@pytest.fixture(scope="module")
def lake(kit: SparkKit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(kit, tmp_path_factory.mktemp("lake")) as opened:
        yield opened


# -- statements -------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_every_statement_works_and_nothing_is_in_the_clear(lake: Lake, mode: str) -> None:
    modes = "".join(f", 'write.{command}.mode' = '{mode}'" for command in ("delete", "update", "merge"))
    name = lake.table(0, modes)
    lake.sql(f"INSERT INTO {name} SELECT id, cast(id AS string) FROM range(0, 1000, 1, 2)")
    lake.sql(f"DELETE FROM {name} WHERE id < 10")
    lake.sql(f"UPDATE {name} SET s = 'x' WHERE id = 20")
    lake.sql(
        f"MERGE INTO {name} t USING (SELECT explode(array(5L, 30L)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'n')"
    )
    expected = [(991, 1, 1, 1)]
    assert lake.sql(f"SELECT count(*), {counts('x', 'm', 'n')} FROM {name}") == expected
    assert lake.sql(f"SELECT s FROM {name} WHERE id = 77") == [("77",)]
    assert lake.python(name).scan("s == 'n'").to_arrow().to_pylist() == [{"id": 5, "s": "n"}]
    client = s3_client(lake.store)
    begin = {client.get_object(Bucket=lake.store.bucket, Key=key)["Body"].read(4) for key in lake.objects(name)}
    assert begin <= {b"PARE", b"AGS1"}
    files = lake.python(name).inspect.data_files().column("file_path").to_pylist()
    assert all(path.startswith(f"s3://{lake.store.bucket}/") for path in files)


def counts(*values: str) -> str:
    return ", ".join(f"count_if(s = '{value}')" for value in values)


def test_avro_files_are_written_and_read(lake: Lake) -> None:
    name = lake.table(100, ", 'write.format.default' = 'avro'")
    assert lake.sql(f"SELECT sum(id) FROM {name}") == [(4950,)]
    assert [key.rpartition(".")[2] for key in lake.objects(name)] == ["avro"]


def test_the_same_file_is_found_under_s3_and_s3a(lake: Lake) -> None:
    name = f"lake.hr.t{next(lake.names)}"
    other = lake.store.warehouse.replace("s3://", "s3a://")
    lake.sql(f"CREATE TABLE {name} (id bigint) USING sealberg LOCATION '{other}/hr/other' {KEYED}")
    lake.sql(f"INSERT INTO {name} SELECT id FROM range(0, 10, 1, 1)")
    assert lake.sql(f"SELECT sum(id) FROM {name}") == [(45,)]
    assert lake.python(name).scan().to_arrow().num_rows == 10
    (path,) = lake.python(name).inspect.data_files().column("file_path").to_pylist()
    assert path.startswith(f"{other}/hr/other/data/")


def test_tables_without_encryption_are_read_and_written(lake: Lake) -> None:
    name = f"lake.hr.t{next(lake.names)}"
    lake.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('format-version' = '3')")
    lake.sql(f"INSERT INTO {name} SELECT id FROM range(0, 10, 1, 1)")
    assert lake.sql(f"SELECT sum(id) FROM {name} WHERE id > 3") == [(39,)]


# -- requests ---------------------------------------------------------------------------------------


def test_a_write_is_one_put_for_each_file(lake: Lake) -> None:
    name = lake.table(0)
    with lake.proxy.counting() as seen:
        lake.sql(f"INSERT INTO {name} SELECT id, cast(id AS string) FROM range(0, 1000, 1, 2)")
    found = by_tasks(seen.requests)
    assert [each.method for each in found] == ["PUT", "PUT"], "no HEAD, list, copy, rename or folder"
    assert all(re.search(DATA, each.key) and not each.query for each in found)
    assert seen.methods(DATA) == {"PUT": 2}, "the driver does not look at the files either"


def test_a_read_is_one_get_for_a_small_file_and_no_head(lake: Lake) -> None:
    name = lake.table(1000)
    for query in (f"SELECT sum(id) FROM {name}", f"SELECT s FROM {name} WHERE id = 5"):
        with lake.proxy.counting() as seen:
            lake.sql(query)
        assert [each.method for each in by_tasks(seen.requests)] == ["GET"], query
        assert seen.count("HEAD", DATA) == 0


def test_a_footer_that_a_task_does_not_keep_is_fetched_for_the_commit(lake: Lake) -> None:
    """A task keeps the last 256 KiB of a file; the footer of this file is larger, by long bounds of many row groups."""
    name = lake.table(0, ", 'write.parquet.row-group-size-bytes' = '1024'")
    with lake.proxy.counting() as seen:
        lake.sql(f"INSERT INTO {name} SELECT id, concat(id, repeat('x', 1900)) FROM range(0, 9000, 1, 1)")
    (key,) = lake.objects(name)
    end = s3_client(lake.store).get_object(Bucket=lake.store.bucket, Key=key, Range="bytes=-8")["Body"].read()
    assert int.from_bytes(end[:4], "little") > 256 << 10
    assert seen.count("GET", DATA) > 0, "the driver fetches the footer"
    assert [each.method for each in by_tasks(seen.requests)] == ["PUT"]
    (file,) = lake.python(name).inspect.data_files().to_pylist()
    assert file["record_count"] == 9000
    assert lake.sql(f"SELECT sum(id), count(s) FROM {name} WHERE id >= 1000") == [(39996000, 8000)]
    assert lake.python(name).scan("id == 77").to_arrow()["s"].to_pylist() == ["77" + "x" * 1900]


# -- settings ---------------------------------------------------------------------------------------


def test_the_settings_of_the_catalog_reach_the_tasks_and_those_of_the_user_win(lake: Lake) -> None:
    name = lake.table(10)
    with lake.proxy.counting() as seen:
        lake.sql(f"SELECT sum(id) FROM {name}")
    (request,) = by_tasks(seen.requests)
    assert header(request, "x-amz-security-token") == TOKEN
    scope = header(request, "authorization")
    assert "Credential=lake-access-key/" in scope
    assert "/eu-of-the-user/s3/" in scope, "spark.hadoop.fs.s3a.endpoint.region"
    assert lake.proxy.address.removeprefix("http://") == header(request, "host")


def test_credentials_of_the_user_replace_all_credentials_of_the_catalog(lake: Lake) -> None:
    name = lake.table(10)
    own = {"fs.s3a.access.key": "users-key", "fs.s3a.secret.key": "users-secret"}
    with session_settings(lake.kit, own), lake.proxy.counting() as seen:
        lake.sql(f"SELECT sum(id) FROM {name}")
    (request,) = by_tasks(seen.requests)
    assert "Credential=users-key/" in header(request, "authorization")
    assert header(request, "x-amz-security-token") == ""


def test_a_class_of_the_user_for_s3_has_settings_of_its_own(lake: Lake) -> None:
    """As EMRFS on EMR: the scheme stays s3, and nothing of the catalog goes there."""
    name = lake.table(10)
    own = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": lake.proxy.address,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "emr-key",
        "fs.s3a.secret.key": "emr-secret",
    }
    with session_settings(lake.kit, own), lake.proxy.counting() as seen:
        assert lake.sql(f"SELECT sum(id) FROM {name}") == [(45,)]
    (request,) = by_tasks(seen.requests)
    assert "Credential=emr-key/" in header(request, "authorization")
    assert header(request, "x-amz-security-token") == ""


def test_two_catalogs_with_other_credentials_for_one_bucket_share_nothing(lake: Lake, tmp_path: Path) -> None:
    mine = lake.table(10)
    store = lake.store.through(lake.proxy.address)
    given = {**properties_of(tmp_path, store), "s3.access-key-id": "other-key"}
    with catalog_of(lake.kit, "lake2", given):
        lake.sql(f"CREATE TABLE lake2.hr.other (id bigint) {KEYED}")
        lake.sql("INSERT INTO lake2.hr.other VALUES (1)")
        with lake.proxy.counting() as seen:
            lake.sql("SELECT sum(id) FROM lake2.hr.other")
            lake.sql(f"SELECT sum(id) FROM {mine}")
            lake.sql("SELECT sum(id) FROM lake2.hr.other")
    keys = [re.findall("Credential=([^/]*)/", header(each, "authorization"))[0] for each in by_tasks(seen.requests)]
    assert keys == ["other-key", "lake-access-key", "other-key"]


def test_a_file_system_that_nobody_uses_is_closed_and_opened_again(lake: Lake) -> None:
    """Ten minutes are told by the clock of each entry, which is put back here."""
    idle(lake.kit)  # of tests before, in the same session
    name = lake.table(10)
    entries = private(lake.kit, "sealberg.storage.FileSystemCache", "ENTRIES").get(None)
    connections = [opened(lake.kit, entry) for entry in entries.values()]
    count, connections = len(connections), [fs for fs in connections if fs.getUri().getScheme() == "s3a"]
    assert connections
    idle(lake.kit)
    assert entries.size() == count, "each was used a moment ago"
    used = private(lake.kit, "sealberg.storage.FileSystemCache$Entry", "used")
    for entry in entries.values():
        used.setLong(entry, jvm_of(lake.kit).java.lang.System.nanoTime() - 11 * 60 * 10**9)
    del entry
    idle(lake.kit)
    assert entries.size() == 0
    deadline = time.monotonic() + 30
    while not all(map(is_closed, connections)) and time.monotonic() < deadline:
        gc.collect()  # py4j holds in Java what Python holds
        jvm_of(lake.kit).java.lang.System.gc()
        time.sleep(0.1)
    assert all(map(is_closed, connections))
    assert lake.sql(f"SELECT sum(id) FROM {name}") == [(45,)]


def private(kit: SparkKit, name: str, field: str) -> Any:
    """A field of a class of the jar, as Java's reflection has it."""
    found = class_of(kit, name).getDeclaredField(field)
    found.setAccessible(True)
    return found


def class_of(kit: SparkKit, name: str) -> Any:
    loader = jvm_of(kit).java.lang.Thread.currentThread().getContextClassLoader()
    return jvm_of(kit).java.lang.Class.forName(name, True, loader)


def opened(kit: SparkKit, entry: Any) -> Any:
    """Hadoop's file system in an entry of the cache; it is held there by another object, which the cache drops."""
    return private(kit, "sealberg.storage.FileSystemCache$Entry", "held").get(entry).fs()


def idle(kit: SparkKit) -> None:
    """What the cache does each minute."""
    drop = class_of(kit, "sealberg.storage.FileSystemCache").getDeclaredMethod("dropIdle", None)
    drop.setAccessible(True)
    drop.invoke(None, None)


def is_closed(connection: Any) -> bool:
    try:
        connection.getUsed()
    except Exception as error:
        assert "closed" in str(error)  # noqa: PT017 (both ways are right here)
        return True
    return False


def test_a_setting_that_hadoop_does_not_have_is_refused_by_name(lake: Lake, tmp_path: Path) -> None:
    given = {**properties_of(tmp_path, lake.store), "s3.new-setting": "1"}
    with catalog_of(lake.kit, "new", given):
        lake.kit.sql(f"CREATE TABLE new.hr.t (id bigint) {KEYED}")
        with pytest.raises(Exception, match=r"UnsupportedError: s3\.new-setting: Hadoop.* has no such setting"):
            lake.sql("INSERT INTO new.hr.t VALUES (1)")


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("abfs://c@a.dfs.core.windows.net", r"add org\.apache\.hadoop:hadoop-azure:3\.\d+\.\d+"),
        ("gs://bucket", r"add com\.google\.cloud\.bigdataoss:gcs-connector"),
    ],
)
def test_a_connector_that_is_missing_is_named(kit: SparkKit, tmp_path: Path, location: str, text: str) -> None:
    """The session has the connectors, so it is told of a class that is not there, as without their jars."""
    given = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/wh",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": MASTER_KEY,
        "sealberg.storage.locations": location,
    }
    absent = {f"fs.{location.partition(':')[0]}.impl": "org.example.NotThere"}
    with session_settings(kit, absent), catalog_of(kit, "missing", given):
        data = f"'write.data.path' = '{location}/data'"
        kit.sql(f"CREATE TABLE missing.hr.t (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr', {data})")
        with pytest.raises(Exception, match=text):
            kit.sql("INSERT INTO missing.hr.t VALUES (1)")


def test_the_credentials_are_shown_nowhere(lake: Lake) -> None:
    kit = lake.kit
    logged = kit.log.stat().st_size if kit.log.exists() else 0
    kit.spark.sparkContext.setLogLevel("DEBUG")
    try:
        # At DEBUG the AWS SDK writes down every header of a request, the token among them: docs/storage-spark.md.
        for logger in ("org.apache.http", "software.amazon.awssdk.http.auth"):
            jvm_of(kit).org.apache.logging.log4j.core.config.Configurator.setLevel(logger, info(kit))
        name = lake.table(100, ", 'write.delete.mode' = 'merge-on-read'")
        lake.sql(f"DELETE FROM {name} WHERE id = 5")
        assert lake.sql(f"SELECT sum(id) FROM {name}") == [(4945,)]
        shown = repr(lake.sql(f"EXPLAIN EXTENDED SELECT s FROM {name} WHERE id > 5")) + repr(lake.sql("SET -v"))
    finally:
        kit.spark.sparkContext.setLogLevel("ERROR")
    conf = repr(kit.spark.sparkContext.getConf().getAll())
    hadoop = str(kit.spark.sparkContext._jsc.hadoopConfiguration().getPropsWithPrefix("fs.").toString())
    assert "eu-of-the-user" in hadoop
    log = kit.log.read_bytes()[logged:]
    assert len(log) > 100_000, "nothing was logged, so nothing was searched"
    places = {"log": log, "shown": shown.encode(), "conf": conf.encode(), "hadoop": hadoop.encode()}
    places |= {page: fetched(kit, page) for page in PAGES}
    places |= {str(path): path.read_bytes() for folder in ("events", "local") for path in files_in(kit.folder / folder)}
    for secret in (SECRET, TOKEN):
        assert not [place for place, text in places.items() if secret.encode() in text]


def info(kit: SparkKit) -> object:
    return jvm_of(kit).org.apache.logging.log4j.Level.INFO


def jvm_of(kit: SparkKit) -> Any:
    return kit.spark.sparkContext._jvm
