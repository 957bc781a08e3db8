"""Iceberg's own REST catalog server (its reference implementation, on Jetty and SQLite), on this machine.

    rest_server(folder)     the address of an empty catalog whose tables lie in folder/warehouse
    seen_by_java(...)       what Java's own REST client finds in a table

One JVM for each process of the tests, started when first asked for; each catalog has an address of its own in it.
"""

from __future__ import annotations

import atexit
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

import pytest

from kit.programs.commands import compile_java, jdk
from kit.programs.maven import bring_all

JAVA = Path(__file__).parents[2] / "java"


def rest_server(folder: Path) -> str:
    """A new catalog; skipped where Java, Maven or PySpark is missing."""
    address = _ask("open", f"file://{folder}/warehouse", f"{folder}/catalog.db")
    if not address.startswith("http"):
        pytest.fail(f"the REST server did not open a catalog:\n{_told(_server())}")
    return address


def seen_by_java(address: str, namespace: str, table: str) -> tuple[list[str], list[str], str]:
    """What Java's own client finds: the ids of the encryption keys, those of the snapshots, and how a scan ends."""
    keys, used, scan = _ask("look", address, namespace, table).split("\t")
    return keys.split(","), used.split(","), scan


def _ask(*words: str) -> str:
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write("\t".join(words) + "\n")
    server.stdin.flush()
    return server.stdout.readline().rstrip("\n")


@cache
def _server() -> subprocess.Popen[str]:
    pyspark = pytest.importorskip("pyspark", reason="PySpark brings Hadoop, which Iceberg's FileIO needs")
    hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
    path = ":".join([f"{bring_all(JAVA / 'rest-server' / 'pom.xml')}/*", *map(str, hadoop)])
    classes = compile_java(JAVA / "RestServer.java", classpath=path)
    frugal = [
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
    ]
    log = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the server)
    server = subprocess.Popen(
        [str(jdk().java), *frugal, "-cp", f"{classes}:{path}", "RestServer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    _logs[server.pid] = log
    atexit.register(server.kill)
    return server


_logs: dict[int, IO[bytes]] = {}


def _told(server: subprocess.Popen[str]) -> str:
    log = _logs[server.pid]
    log.seek(0)
    return log.read().decode(errors="replace")[-3000:]
