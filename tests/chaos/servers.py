"""Catalogs whose servers are restarted and whose answers are lost, each with the faults that fit it.

    with PLACES[kind](folder) as place: ...      its properties and its faults

A server of a round is its own: nobody else meets its faults.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from chaos.director import Crew, Fault, trouble
from kit.servers.fault_proxy import FaultProxy, fault_proxy
from kit.servers.metastore import metastore
from kit.servers.postgres import Postgres, new_postgres
from kit.servers.rest_server import rest_server
from kit.servers.thrift_proxy import ThriftProxy, thrift_proxy

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from kit.servers.fault_proxy import Request


@dataclass(frozen=True)
class Place:
    """Where the tables of a round are.

    Args:
        properties: of the catalog, the KMS aside.
        port: of the metastore, where there is one.
    """

    properties: dict[str, str]
    faults: tuple[Fault, ...] = ()
    port: int = 0


@contextmanager
def sqlite(folder: Path) -> Iterator[Place]:
    yield Place({"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"})


# -- a disk of its own ----------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[Place]:
    """A file system that gets full, and read-only; where nobody may mount one, storage says so in its place."""
    disk = folder / "disk"
    disk.mkdir()
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{disk}/warehouse"}
    if _mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)):
        try:
            full, read_only = _filling(disk), _sealing(disk)
            yield Place(properties, (Fault("disk full", 5.0, full), Fault("disk read-only", 6.0, read_only)))
        finally:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
        return
    full, read_only = trouble("full"), trouble("read-only")
    yield Place(properties, (Fault("disk full (injected)", 5.0, full), Fault("read-only (injected)", 6.0, read_only)))


def _mount(*words: str) -> bool:
    try:
        return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _filling(disk: Path) -> Callable[[Crew, random.Random], None]:
    def strike(crew: Crew, dice: random.Random) -> None:
        filler = disk / "filler"
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 16))
        crew.after(dice.uniform(0.5, 2.0), lambda: filler.unlink(missing_ok=True))

    return strike


def _sealing(disk: Path) -> Callable[[Crew, random.Random], None]:
    def strike(crew: Crew, dice: random.Random) -> None:
        # The kernel refuses while a file is being written: then it was not read-only, and is not counted.
        if (disk / "filler").exists() or not _mount("-o", "remount,ro", str(disk)):
            crew.done["disk read-only"] -= 1
            return
        crew.after(dice.uniform(0.5, 2.0), lambda: _writable(disk))

    return strike


def _writable(disk: Path) -> None:
    assert _mount("-o", "remount,rw", str(disk))


# -- PostgreSQL -----------------------------------------------------------------------------------------------------


@contextmanager
def postgresql(folder: Path) -> Iterator[Place]:
    """Restarted, crashed, and with connections cut."""
    server = new_postgres()
    try:
        properties = {"type": "sql", "uri": server.uri("postgres"), "warehouse": f"file://{folder}/warehouse"}
        cut = Fault("PostgreSQL connections cut", 4.0, _cutting(server))
        yield Place(properties, (Fault("PostgreSQL restarted", 8.0, _restarting(server)), cut))
    finally:
        server.stop()


def _restarting(server: Postgres) -> Callable[[Crew, random.Random], None]:
    def strike(_: Crew, dice: random.Random) -> None:
        server.halt(crash=dice.random() < 0.5)
        time.sleep(dice.uniform(0.1, 1.5))
        server.start()

    return strike


def _cutting(server: Postgres) -> Callable[[Crew, random.Random], None]:
    others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
    return lambda _crew, _dice: server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")


# -- Hive -----------------------------------------------------------------------------------------------------------


class RestartedMetastore:
    """A metastore that can be stopped and started again at its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.port = self._stack.enter_context(metastore(folder))

    def restart(self) -> None:
        self.close()
        self._stack.enter_context(metastore(self._folder, self.port))

    def close(self) -> None:
        self._stack.close()


@contextmanager
def hive(folder: Path) -> Iterator[Place]:
    """Restarted, and with commits whose request or answer is lost."""
    server = RestartedMetastore(folder)
    try:
        with thrift_proxy(server.port) as proxy:
            restarts = Fault("metastore restarted", 25.0, lambda _crew, _dice: server.restart())
            losses = Fault("metastore answers lost", 5.0, _losing(proxy))
            yield Place({"type": "hive", "uri": proxy.uri}, (restarts, losses), server.port)
    finally:
        server.close()


@contextmanager
def calm_hive(folder: Path) -> Iterator[Place]:
    """Without faults of its own."""
    with metastore(folder) as port:
        yield Place({"type": "hive", "uri": f"thrift://127.0.0.1:{port}"}, (), port)


def _losing(proxy: ThriftProxy) -> Callable[[Crew, random.Random], None]:
    def strike(crew: Crew, dice: random.Random) -> None:
        losing = ExitStack()
        losing.enter_context(proxy.losing("alter_table", dice.choice(("answer", "request"))))
        crew.after(dice.uniform(0.2, 0.8), losing.close)

    return strike


# -- REST -----------------------------------------------------------------------------------------------------------


@contextmanager
def rest(folder: Path) -> Iterator[Place]:
    """Commits whose answer is lost, or that end in a server error before or after they are done."""
    with fault_proxy(rest_server(folder)) as proxy:
        yield Place({"type": "rest", "uri": proxy.address}, (Fault("REST answers lost", 3.0, _garbling(proxy)),))


def _garbling(proxy: FaultProxy) -> Callable[[Crew, random.Random], None]:
    def strike(crew: Crew, dice: random.Random) -> None:
        fate = dice.choice((None, 500, 502, 504))

        def change(request: Request, status: int, body: bytes) -> tuple[int, bytes] | None:
            if request.method != "POST":
                return status, body
            return None if fate is None else (fate, b'{"error": {"message": "chaos", "type": "Chaos", "code": 500}}')

        losing = ExitStack()
        if dice.random() < 0.5:
            losing.enter_context(proxy.answering(change))
        else:
            losing.enter_context(proxy.before(lambda request: (fate or "drop") if request.method == "POST" else None))
        crew.after(dice.uniform(0.2, 0.8), losing.close)

    return strike


PLACES: Final[dict[str, Callable[[Path], AbstractContextManager[Place]]]] = {
    "sqlite": sqlite,
    "small-disk": small_disk,
    "postgresql": postgresql,
    "hive": hive,
    "calm-hive": calm_hive,
    "rest": rest,
}
