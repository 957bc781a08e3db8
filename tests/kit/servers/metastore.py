"""A Hive Metastore on this machine, from PySpark's jars.

    with metastore(folder) as port:      a separate metastore
    shared_metastore()                   one for all tests of this process, stopped at its end
    parameters(catalog, "db.t")          the parameters of a table; set_parameters changes them, as other tools can

It is version 2.3, with locks, and can compare a parameter before an alter.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kit import leftovers
from kit.programs.commands import compile_java, jdk
from kit.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OPENED: Final = ("java.net", "java.lang", "java.util", "java.util.concurrent")


@dataclass(frozen=True)
class Metastore:
    """A running metastore, and the folder in which its namespaces have their tables."""

    uri: str
    warehouse: Path


@cache
def shared_metastore() -> Metastore:
    """One for all tests of this process, stopped at its end."""
    jdk()  # before there is a folder, which a skip would leave
    stack = ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sealberg-hive-", ignore_cleanup_errors=True)))
    before = leftovers.here()
    port = stack.enter_context(metastore(folder))
    made = leftovers.here() - before
    leftovers.lasts(stack.close, lambda: made)
    return Metastore(f"thrift://127.0.0.1:{port}", folder / "metastore" / "warehouse")


@contextmanager
def metastore(folder: Path, port: int = 0) -> Iterator[int]:
    """Run a metastore during the block; gives its port. Its data stay in the folder for a later metastore."""
    pyspark = pytest.importorskip("pyspark", reason="PySpark brings the metastore")
    jars = Path(pyspark.__file__).parent / "jars"
    classes = compile_java(Path(__file__).parents[2] / "java" / "Metastore.java", classpath=f"{jars}/*")
    port = port or free_port()
    home = folder / "metastore"
    home.mkdir(exist_ok=True)
    opened = [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    frugal = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dderby.system.durability=test"]
    command = [str(jdk().java), *frugal, *opened, "-cp", f"{classes}:{jars}/*", "Metastore", str(port), str(home)]
    with (
        (home / "log").open("ab") as log,
        subprocess.Popen(command, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server,
    ):
        try:
            _wait_for(port, server, home / "log")
            yield port
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1800):  # three minutes: many may start at once on a small machine
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the metastore does not listen:\n{log.read_text()[-2000:]}")


def parameters(catalog: Any, name: str) -> dict[str, str]:
    """The parameters of a table."""
    database, table = name.split(".")
    with catalog._client as client:
        return dict(client.get_table(dbname=database, tbl_name=table).parameters)


def set_parameters(catalog: Any, name: str, changes: Mapping[str, str | None]) -> None:
    """Change parameters as a tool that does not know trust records; None removes a parameter."""
    database, table = name.split(".")
    with catalog._client as client:
        found = client.get_table(dbname=database, tbl_name=table)
        found.parameters.update(changes)
        found.parameters = {key: value for key, value in found.parameters.items() if value is not None}
        client.alter_table(database, table, found)
