"""Spark's threads and Python's: few connections, whatever happens to those who use them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from kit.programs.spark import KEYED
from sealberg.spark import sessions
from sealberg.spark.driver.backend import Backend
from sealberg.spark.driver.bridge_server import BridgeServer, bridge_server
from sealberg.spark.driver.dispatcher import Dispatcher

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit

MOST_CONNECTIONS = 16  # of PythonBackend.java


def filled(kit: SparkKit) -> str:
    name = kit.fresh("bridge")
    kit.sql(f"CREATE TABLE {name} {KEYED} AS SELECT id, id % 2 AS k FROM range(100)")
    return name


def sockets_of(pid: int) -> int:
    links = [os.readlink(one.path) for one in os.scandir(f"/proc/{pid}/fd") if os.path.islink(one.path)]  # noqa: PTH114, PTH115
    return sum(one.startswith("socket:") for one in links)


def test_py4j_listens_for_no_callbacks(kit: SparkKit) -> None:
    context: Any = kit.spark.sparkContext
    assert context._gateway._callback_server is None


def test_queries_leave_no_thread_and_no_socket_behind(kit: SparkKit) -> None:
    name = filled(kit)
    context: Any = kit.spark.sparkContext
    jvm_pid = int(context._jvm.java.lang.ProcessHandle.current().pid())

    def run(count: int) -> tuple[int, int, int]:
        for number in range(count):
            kit.sql(f"SELECT k, sum(id) FROM {name} WHERE id > {number} GROUP BY k")
        return threading.active_count(), sockets_of(os.getpid()), sockets_of(jvm_pid)

    before, after = run(5), run(20)
    assert all(there <= here + 2 for here, there in zip(before, after, strict=True)), (before, after)


def test_many_threads_share_few_connections(kit: SparkKit) -> None:
    name = filled(kit)
    with ThreadPoolExecutor(40) as pool:
        statements = [f"SELECT k, count(*) FROM {name} WHERE id >= {one} GROUP BY k" for one in range(80)]
        found = [sum(row[1] for row in rows) for rows in pool.map(kit.sql, statements)]
    assert found == [100 - one for one in range(80)]
    assert len(bridge_server()._connections) <= MOST_CONNECTIONS


class Held:
    """Python, stopped in the middle of a verb."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        real = Backend.call

        def held(backend: Backend, asked: str, arguments: dict[str, Any]) -> dict[str, Any]:
            if asked == verb and not self.reached.is_set():
                self.reached.set()
                assert self.go_on.wait(60)
            return real(backend, asked, arguments)

        monkeypatch.setattr(Backend, "call", held)


class Statement(threading.Thread):
    """A statement on a thread of its own, and the thread of the JVM that it runs on."""

    def __init__(self, kit: SparkKit, statement: str) -> None:
        super().__init__(daemon=True)
        self.kit, self.statement = kit, statement
        self.java: Any = None
        self.error: Exception | None = None
        self.interrupted: bool | None = None

    def run(self) -> None:
        context: Any = self.kit.spark.sparkContext
        self.java = context._jvm.java.lang.Thread.currentThread()
        try:
            self.kit.sql(self.statement)
        except Exception as error:
            self.error = error
        self.interrupted = context._jvm.java.lang.Thread.interrupted()


def test_a_cancelled_query_does_not_wait_for_python(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = filled(kit)
    held = Held(monkeypatch, "load-table")
    query = Statement(kit, f"SELECT * FROM {name}")
    query.start()
    assert held.reached.wait(60)
    query.java.interrupt()
    query.join(60)
    assert not query.is_alive(), "though Python still loads the table"
    assert "ClosedByInterrupt" in str(query.error)
    assert kit.sql(f"SELECT count(id) FROM {name}") == [(100,)], "others are not disturbed"
    held.go_on.set()
    assert kit.sql(f"SELECT count(id) FROM {name}") == [(100,)]


def test_a_commit_is_carried_through(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> None:
    name = filled(kit)
    held = Held(monkeypatch, "commit-request")
    insert = Statement(kit, f"INSERT INTO {name} VALUES (1000, 7)")
    insert.start()
    assert held.reached.wait(60)
    insert.java.interrupt()
    insert.join(1)
    assert insert.is_alive(), "the statement waits for what becomes of its commit"
    held.go_on.set()
    insert.join(60)
    assert insert.error is None
    assert insert.interrupted is True, "and who interrupted it is not forgotten"
    assert kit.sql(f"SELECT k FROM {name} WHERE id = 1000") == [(7,)]


def test_a_python_that_is_gone_is_one_clear_error(kit: SparkKit) -> None:
    dispatcher = Dispatcher()
    dispatcher.install("gone", Backend(kit.catalog))
    server = BridgeServer(dispatcher)
    context: Any = kit.spark.sparkContext
    context._jvm.sealberg.bridge.PythonBridge.install("gone", server.path, server.token, False)
    kit.spark.conf.set("spark.sql.catalog.gone", sessions.CATALOG_CLASS)
    name = filled(kit).replace("prod.", "gone.")
    assert kit.sql(f"SELECT count(id) FROM {name}") == [(100,)]
    server.close()
    for _ in range(2):
        with pytest.raises(AnalysisException, match="the Python process behind catalog gone cannot be reached") as told:
            kit.sql(f"SELECT count(id) FROM {name}")
        assert "whether" not in str(told.value)
    with pytest.raises(AnalysisException, match="cannot be reached") as told:
        kit.sql(f"DROP TABLE {name}")
    assert "whether" not in str(told.value), "nothing was asked"
    kit.spark.conf.unset("spark.sql.catalog.gone")
    assert kit.sql(f"SELECT count(id) FROM {name.replace('gone.', 'prod.')}") == [(100,)]


def test_a_python_that_ends_in_the_middle_of_a_change_leaves_the_outcome_open(kit: SparkKit) -> None:
    dispatcher = Dispatcher()
    server = BridgeServer(dispatcher)

    class Ends(Backend):
        def call(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
            answer = super().call(verb, arguments)
            if verb == "drop-table":
                server.close()
            return answer

    dispatcher.install("ends", Ends(kit.catalog))
    context: Any = kit.spark.sparkContext
    context._jvm.sealberg.bridge.PythonBridge.install("ends", server.path, server.token, False)
    kit.spark.conf.set("spark.sql.catalog.ends", sessions.CATALOG_CLASS)
    name = filled(kit)
    with pytest.raises(AnalysisException, match='whether "drop-table" was carried out is not known, so look before'):
        kit.sql(f"DROP TABLE {name.replace('prod.', 'ends.')}")
    kit.spark.conf.unset("spark.sql.catalog.ends")
    assert not kit.catalog.table_exists(name.removeprefix("prod."))


def test_a_wrong_token_is_refused(kit: SparkKit) -> None:
    context: Any = kit.spark.sparkContext
    context._jvm.sealberg.bridge.PythonBridge.install("stranger", bridge_server().path, "0" * 64, False)
    kit.spark.conf.set("spark.sql.catalog.stranger", sessions.CATALOG_CLASS)
    with pytest.raises(AnalysisException, match="cannot be reached"):
        kit.sql("SHOW NAMESPACES IN stranger")
    kit.spark.conf.unset("spark.sql.catalog.stranger")
