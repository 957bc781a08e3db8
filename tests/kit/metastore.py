"""A Hive Metastore on this machine, out of the jars that come with PySpark."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kit.programs import compile_java, jdk

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENED: Final = ("java.net", "java.lang", "java.util", "java.util.concurrent")


@contextmanager
def metastore(folder: Path) -> Iterator[int]:
    """Its port, while it runs; all that it keeps is under the folder."""
    pyspark = pytest.importorskip("pyspark", reason="PySpark brings the metastore")
    jars = Path(pyspark.__file__).parent / "jars"
    classes = compile_java(Path(__file__).parents[1] / "java" / "Metastore.java", classpath=f"{jars}/*")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    home = folder / "metastore"
    home.mkdir()
    opened = [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    frugal = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dderby.system.durability=test"]
    command = [str(jdk().java), *frugal, *opened, "-cp", f"{classes}:{jars}/*", "Metastore", str(port), str(home)]
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(command, cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server,
    ):
        try:
            _wait_for(port, server, home / "log")
            yield port
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"the metastore does not listen:\n{log.read_text()[-2000:]}")
