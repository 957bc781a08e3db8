"""What is peculiar to Hive: locks, alters that compare, lost answers, parameters of others, tables without a hash."""

from __future__ import annotations

import json
import logging
import socket
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import (
    InvalidOperationException,
    LockComponent,
    LockLevel,
    LockRequest,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationException,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestampNanoType

from kit.servers.metastore import parameters, set_parameters
from kit.servers.thrift_proxy import ThriftProxy, thrift_proxy
from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.catalogs import table_parameters as parameters_module
from sealberg.catalogs.hive import catalog as module
from sealberg.catalogs.hive import table_form as hive_table
from sealberg.errors import CatalogUnavailableError, TrustError, UnsupportedError
from sealberg.metadata.table_metadata import metadata_hash
from sealberg.write.retry import DATABASE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake

pytestmark = pytest.mark.slow  # a metastore is started

ENCRYPTED = {"encryption.key-id": "hr"}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
HASTY = {"commit.retry.num-retries": "0"}
LOCKLESS = {"iceberg.engine.hive.lock-enabled": "false"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with catalogs._lake("hive", tmp_path) as found:
        yield found


@pytest.fixture
def catalog(lake: Lake) -> Any:
    return lake.connect()


@pytest.fixture
def proxy(lake: Lake) -> Iterator[ThriftProxy]:
    with thrift_proxy(int(lake.properties["uri"].rpartition(":")[2])) as found:
        yield found


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> int:
    return int(table.scan().to_arrow().num_rows)


def locks(catalog: Any) -> list[int]:
    with catalog._client as client:
        return [lock.lockid for lock in client.show_locks(ShowLocksRequest()).locks]


def unlock_all(catalog: Any) -> None:
    for lock in locks(catalog):
        with catalog._client as client:
            client.unlock(UnlockRequest(lockid=lock))


def commit_between(monkeypatch: pytest.MonkeyPatch, table: Any) -> None:
    """Somebody appends to the table after the next alter has looked at it, and before it alters."""
    alter = module._alter

    def late(*arguments: Any) -> None:
        monkeypatch.setattr(module, "_alter", alter)
        table.append(ROWS)
        alter(*arguments)

    monkeypatch.setattr(module, "_alter", late)


# -- parameters -------------------------------------------------------------------------------


def test_key_id_key_length_and_hash_are_parameters_under_the_names_of_java(catalog: Any) -> None:
    table = make(catalog, **{"encryption.data-key-length": "24"})
    for _ in range(2):
        known = parameters(catalog, "db.t")
        assert (known["encryption.key-id"], known["encryption.data-key-length"]) == ("hr", "24")
        assert known["metadata_location"] == table.metadata_location
        text = path_of(table.metadata_location).read_bytes()
        assert known["metadata_hash"] == metadata_hash(text) == table.metadata.metadata_hash()
        table.append(ROWS)


def test_parameters_of_others_stay_and_properties_that_are_gone_go(catalog: Any) -> None:
    table = make(catalog, mine="1", old="1")
    set_parameters(catalog, "db.t", {"theirs": "1"})
    with table.transaction() as transaction:
        transaction.remove_properties("old")
        transaction.set_properties(mine="2")
    known = parameters(catalog, "db.t")
    assert (known["theirs"], known["mine"]) == ("1", "2")
    assert "old" not in known


def test_a_summary_that_is_too_long_for_the_metastore_is_left_out_of_the_parameters(catalog: Any) -> None:
    table = make(catalog)
    table.append(ROWS)
    assert json.loads(parameters(catalog, "db.t")["current-snapshot-summary"])["total-records"] == "3"
    table.append(ROWS, snapshot_properties={"note": "x" * 40_000})
    known = parameters(catalog, "db.t")
    assert "current-snapshot-summary" not in known
    assert (known["numRows"], known["snapshot-count"]) == ("6", "2")


def test_a_version_3_table_that_is_not_encrypted_has_no_hash(catalog: Any) -> None:
    catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"}).append(ROWS)
    assert not {"metadata_hash", *ENCRYPTED} & parameters(catalog, "db.t").keys()


def test_types_that_hive_does_not_have_are_refused_before_anything_is_written(catalog: Any, lake: Lake) -> None:
    schema = Schema(NestedField(1, "at", TimestampNanoType(), required=False))
    with pytest.raises(UnsupportedError, match="the Hive Metastore has no type for timestamp_ns"):
        catalog.create_table("db.t", schema, properties=ENCRYPTED)
    table = make(catalog)
    before = lake.files()
    with pytest.raises(UnsupportedError, match="timestamp_ns"), table.update_schema() as update:
        update.add_column("at", TimestampNanoType())
    assert lake.files() == before


def test_names_that_differ_in_case_only_are_refused_before_anything_is_written(catalog: Any, lake: Lake) -> None:
    """The metastore would refuse them with the words of its database, after the files were written."""
    twice = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "Id", LongType(), required=False))
    with pytest.raises(UnsupportedError, match="no columns whose names differ in case only: id, Id"):
        catalog.create_table("db.t", twice, properties=ENCRYPTED)
    table = make(catalog)
    before = lake.files()
    with pytest.raises(UnsupportedError, match="differ in case only"), table.update_schema() as update:
        update.add_column(table.schema().column_names[0].upper(), LongType())
    assert lake.files() == before


def test_what_is_not_there_is_named(catalog: Any) -> None:
    assert not catalog.namespace_exists("nothing")
    assert not catalog.table_exists("nothing.t")
    for ask in (catalog.drop_namespace, catalog.load_namespace_properties):
        with pytest.raises(NoSuchNamespaceError, match="nothing"):
            ask("nothing")
    with pytest.raises(NoSuchTableError, match="nothing"):
        catalog.drop_table("db.nothing")


def test_a_table_of_hive_itself_is_no_iceberg_table(catalog: Any) -> None:
    make(catalog)
    set_parameters(catalog, "db.t", {"table_type": "HUDI"})
    with pytest.raises(NoSuchIcebergTableError):
        catalog.load_table("db.t")


def test_what_the_metastore_refuses_leaves_no_file(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    before = lake.files()

    def refuse(*_: Any) -> None:
        raise InvalidOperationException("the following columns have types incompatible with the existing columns")

    monkeypatch.setattr(module, "_alter", refuse)
    with pytest.raises(ValidationException, match=r"the metastore refuses db\.t: the following columns"):
        table.append(ROWS)
    assert lake.files() == before


# -- without a hash ---------------------------------------------------------------------------


def test_a_table_without_a_hash_is_read_with_a_warning_and_has_one_after_the_next_commit(
    catalog: Any, caplog: pytest.LogCaptureFixture
) -> None:
    make(catalog).append(ROWS)
    set_parameters(catalog, "db.t", {"metadata_hash": None})
    with caplog.at_level(logging.WARNING):
        table = catalog.load_table("db.t")
    assert "has no hash for" in caplog.text
    table.append(ROWS)
    caplog.clear()
    assert rows_of(catalog.load_table("db.t")) == 6
    assert not caplog.text
    assert parameters(catalog, "db.t")["metadata_hash"] == catalog.load_table("db.t").metadata.metadata_hash()


@pytest.mark.parametrize("times", [1, 2])
def test_a_hash_of_another_version_than_the_pointer_is_looked_at_again_and_then_refused(
    catalog: Any, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The metastore reads one parameter before a commit of somebody else, and the other after it."""
    make(catalog)
    mixed = iter([True] * times)
    real = parameters_module.pointer

    def torn(name: Any, found: Any) -> Any:
        location, trust = real(name, found)
        assert trust is not None
        return location, replace(trust, metadata_hash="0" * 64) if next(mixed, False) else trust

    monkeypatch.setattr(module, "pointer", torn)
    if times == 1:
        assert catalog.load_table("db.t").metadata.snapshots == []
    else:
        with pytest.raises(TrustError, match="might have been modified"):
            catalog.load_table("db.t")


@pytest.mark.parametrize("changed", ["encryption.key-id", "encryption.data-key-length"])
def test_without_a_hash_the_keys_are_still_compared(catalog: Any, changed: str) -> None:
    make(catalog).append(ROWS)
    set_parameters(catalog, "db.t", {"metadata_hash": None, changed: "32"})
    with pytest.raises(TrustError, match="is not the one that the catalog has"):
        catalog.load_table("db.t")


# -- locks ------------------------------------------------------------------------------------


def test_a_commit_waits_for_the_lock_of_another_process_and_gives_up_in_time(catalog: Any, lake: Lake) -> None:
    make(catalog, **HASTY)
    with catalog._client as client:
        table = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="db", tablename="t")
        held = client.lock(LockRequest(component=[table], user="them", hostname="there")).lockid
    before = lake.files()
    impatient = lake.connect(**{"iceberg.hive.lock-timeout-ms": "200"}).load_table("db.t")
    with pytest.raises(CommitFailedException, match=r"lock of db\.t in .*another process has had the lock"):
        impatient.append(ROWS)
    assert lake.files() == before
    assert locks(catalog) == [held]
    waiting = threading.Thread(target=lake.connect().load_table("db.t").append, args=(ROWS,))
    waiting.start()
    unlock_all(catalog)
    waiting.join(60)
    assert rows_of(catalog.load_table("db.t")) == 3
    assert locks(catalog) == []


def test_a_lock_that_was_lost_meanwhile_is_no_lock(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog, **HASTY)
    before = lake.files()
    storage = hive_table.storage

    def slow(*arguments: Any, **more: Any) -> Any:
        unlock_all(catalog)  # as the metastore does after some minutes
        return storage(*arguments, **more)

    monkeypatch.setattr(module, "storage", slow)
    with pytest.raises(CommitFailedException, match=r"lock of db\.t is lost"):
        table.append(ROWS)
    assert lake.files() == before
    assert rows_of(catalog.load_table("db.t")) == 0


def test_whoever_commits_without_the_lock_is_noticed_by_the_alter(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    commit_between(monkeypatch, lake.connect(**LOCKLESS).load_table("db.t"))
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == 6
    assert len(catalog.load_table("db.t").metadata.snapshots) == 2


def test_a_table_can_do_without_locks(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "table_lock", None)  # it would be called
    table = make(catalog, **{"engine.hive.lock-enabled": "false"})
    commit_between(monkeypatch, lake.connect().load_table("db.t"))
    table.append(ROWS)
    with table.transaction() as transaction:
        transaction.set_properties({"engine.hive.lock-enabled": "true"})  # from the next commit on
    with pytest.raises(TypeError):
        table.append(ROWS)
    monkeypatch.undo()
    catalog.rename_table("db.t", "db.u")
    assert rows_of(catalog.load_table("db.u")) == 6


def test_a_rename_does_not_undo_a_commit_that_came_between(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog).append(ROWS)
    commit_between(monkeypatch, lake.connect(**LOCKLESS).load_table("db.t"))
    with pytest.raises(CommitFailedException, match="updated by another process"):
        catalog.rename_table("db.t", "db.u")
    assert rows_of(catalog.load_table("db.t")) == 6
    assert rows_of(catalog.rename_table("db.t", "db.u")) == 6


def test_a_name_in_capitals_is_the_same_table_and_the_same_lock(catalog: Any, lake: Lake) -> None:
    table = make(catalog, "DB.T", **HASTY)
    with catalog._client as client:
        theirs = LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname="db", tablename="t")
        client.lock(LockRequest(component=[theirs], user="them", hostname="there"))
    impatient = lake.connect(**{"iceberg.hive.lock-timeout-ms": "200"})
    for name in ("DB.T", "db.t"):
        with pytest.raises(CommitFailedException, match="another process has had the lock"):
            impatient.load_table(name).append(ROWS)
    unlock_all(catalog)
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == 3
    assert locks(catalog) == []


def test_how_hive_itself_reads_a_table_is_left_as_others_set_it(catalog: Any) -> None:
    table = make(catalog)
    with catalog._client as client:
        found = client.get_table("db", "t")
        found.sd.inputFormat, found.parameters["storage_handler"] = "theirs.InputFormat", "theirs.Handler"
        client.alter_table("db", "t", found)
    with table.update_schema() as update:
        update.add_column("more", LongType())
    with catalog._client as client:
        found = client.get_table("db", "t")
    assert [column.name for column in found.sd.cols] == ["id", "more"]
    assert (found.sd.inputFormat, found.parameters["storage_handler"]) == ("theirs.InputFormat", "theirs.Handler")


def test_threads_can_share_a_catalog(catalog: Any) -> None:
    make(catalog).append(ROWS)
    found: list[int] = []

    def look() -> None:
        for _ in range(3):
            catalog.list_tables("db")
            found.append(rows_of(catalog.load_table("db.t")))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 12


# -- lost answers -----------------------------------------------------------------------------


def test_a_commit_whose_answer_is_lost_is_found(catalog: Any, lake: Lake, proxy: ThriftProxy) -> None:
    make(catalog)
    table = lake.connect(uri=proxy.uri).load_table("db.t")
    with proxy.losing("alter_table", "answer"):
        table.append(ROWS)
    assert proxy.lost == 1
    table.append(ROWS)
    again = catalog.load_table("db.t")
    assert len(again.metadata.snapshots) == 2
    assert rows_of(again) == 6
    assert locks(catalog) == []


@pytest.mark.parametrize("what", ["request", "all"])
def test_where_nobody_knows_no_file_is_deleted(
    catalog: Any, lake: Lake, proxy: ThriftProxy, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr(module, "DATABASE", replace(DATABASE, num_retries=1))  # two minutes of patience otherwise
    make(catalog, **{"commit.status-check.min-wait-ms": "1"})
    table = lake.connect(uri=proxy.uri).load_table("db.t")
    before = lake.files()
    with proxy.losing("alter_table", what), pytest.raises(CommitStateUnknownException, match=r"db\.t was lost"):
        table.append(ROWS)
    assert proxy.lost == 1
    assert len(lake.files() - before) == 4  # data, manifest, list, metadata
    assert rows_of(catalog.load_table("db.t")) == (3 if what == "all" else 0)
    unlock_all(catalog)  # where the metastore was out of reach it could not be given back, and expires
    catalog.load_table("db.t").append(ROWS)


def test_a_table_whose_creation_is_not_answered_is_found(catalog: Any, lake: Lake, proxy: ThriftProxy) -> None:
    with proxy.losing("create_table", "answer"):
        make(lake.connect(uri=proxy.uri)).append(ROWS)
    assert proxy.lost == 1
    assert rows_of(catalog.load_table("db.t")) == 3
    with proxy.losing("create_table", "request"), pytest.raises(CommitStateUnknownException):
        make(lake.connect(uri=proxy.uri), "db.u")
    assert not catalog.table_exists("db.u")


def test_a_metastore_that_is_away_for_a_moment_is_asked_again(catalog: Any, lake: Lake, proxy: ThriftProxy) -> None:
    make(catalog)
    table = lake.connect(uri=proxy.uri).load_table("db.t")
    with proxy.losing("get_table", "request"):
        back = threading.Timer(0.5, lambda: setattr(proxy, "_method", b""))
        back.start()
        table.append(ROWS)
        back.join()
    assert proxy.lost > 0
    assert rows_of(catalog.load_table("db.t")) == 3


def test_a_metastore_that_stays_away_is_named(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DATABASE", replace(DATABASE, num_retries=1))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        uri = f"thrift://127.0.0.1:{nobody.getsockname()[1]}"
        away = lake.connect(uri=uri)
        with pytest.raises(CatalogUnavailableError, match=f"the Hive Metastore at {uri} did not answer"):
            away.load_table("db.t")


def test_a_lock_whose_answer_is_lost_is_given_back(catalog: Any, lake: Lake, proxy: ThriftProxy) -> None:
    make(catalog, **HASTY)
    before = lake.files()
    table = lake.connect(uri=proxy.uri).load_table("db.t")
    with (
        proxy.losing("\x00\x04lock", "answer"),
        pytest.raises(CommitFailedException, match="could not request the metastore"),
    ):
        table.append(ROWS)
    assert proxy.lost == 1
    assert locks(catalog) == []
    assert lake.files() == before
