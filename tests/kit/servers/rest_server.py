"""Iceberg's own REST catalog server (its reference implementation, on Jetty and SQLite), on this machine.

    rest_server(folder)     the address of an empty catalog with tables in folder/warehouse
    rest_server_on_s3(...)  the same in a bucket; it vends credentials for every table
    seen_by_java(...)       what Java's own REST client finds in a table

Each test process has one JVM, started on first use; each catalog has its own address.
"""

from __future__ import annotations

import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from kit import leftovers
from kit.programs.commands import compile_java, jdk
from kit.programs.maven import bring_all
from kit.servers.hadoop_connectors import hadoop_aws

if TYPE_CHECKING:
    from kit.servers.store_servers import Store

JAVA = Path(__file__).parents[2] / "java"


def rest_server(folder: Path) -> str:
    """A new catalog; the test is skipped if Java, Maven or PySpark is missing."""
    return _opened(f"file://{folder}/warehouse", f"{folder}/catalog.db")


def rest_server_on_s3(folder: Path, store: Store, vended: dict[str, str]) -> str:
    """A new catalog with tables in a bucket; the server vends these credentials for each table."""
    own = {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.s3a.endpoint": store.address,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": store.properties["s3.access-key-id"],
        "fs.s3a.secret.key": store.properties["s3.secret-access-key"],
    }
    pairs = (" ".join(f"{name}={value}" for name, value in each.items()) for each in (own, vended))
    return _opened(store.warehouse, f"{folder}/catalog.db", *pairs)


def _opened(*words: str) -> str:
    address = _ask("open", *words)
    if not address.startswith("http"):
        pytest.fail(f"the REST server did not open a catalog:\n{_told(_server())}")
    return address


def seen_by_java(address: str, namespace: str, table: str) -> tuple[list[str], list[str], str]:
    """What Java's client finds in a table: ids of encryption keys and of snapshots, and the outcome of a scan."""
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
    wanted = ("hadoop-client-*", "jcl-over-slf4j-*", "httpclient-4*", "httpcore-4*", "commons-codec-*")
    hadoop = [jar for name in wanted for jar in sorted((Path(pyspark.__file__).parent / "jars").glob(f"{name}.jar"))]
    # S3A goes first: Iceberg's jar of tests has a class of its own under the name of one of S3A's.
    path = ":".join([*hadoop_aws(), f"{bring_all(JAVA / 'rest-server' / 'pom.xml')}/*", *map(str, hadoop)])
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
    leftovers.lasts(lambda: _stop(server), lambda: {leftovers.process(server.pid)})
    return server


def _stop(server: subprocess.Popen[str]) -> None:
    with server:  # which closes its pipes and waits for it
        server.kill()


_logs: dict[int, IO[bytes]] = {}


def _told(server: subprocess.Popen[str]) -> str:
    log = _logs[server.pid]
    log.seek(0)
    return log.read().decode(errors="replace")[-3000:]
