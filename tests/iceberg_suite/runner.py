"""Runs test classes of Iceberg in one JVM, with sealberg's catalog in the place of each that they name.

    python -m iceberg_suite.runner sql.TestSelect extensions.TestMergeOnReadDelete#testDeleteWithAlias
    python -m iceberg_suite.runner --connector iceberg sql.TestSelect     the same on Iceberg's own catalog
    python -m iceberg_suite.runner --rows all CLASS                   every row of parameters, instead of one

Maven brings Iceberg's tests and its connector; nothing of them is here. What is here in Java (java/) starts JUnit, one
metastore and one Spark for all classes, and changes a few methods as their classes are loaded:

* every catalog of the tests is `sealberg.catalog.EncryptedCatalog` on the metastore, with Iceberg's test KMS and a
  default key; the format version is 3 wherever a test names one
* tables that a test loads in Java are Iceberg's, from the same metastore with the same KMS
* an error in other words, or of another class, than Iceberg's is an error, too; that is noted
* after a test that failed all tables are dropped, and the settings of the session are those of the start
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from kit.programs.commands import compile_java, jdk
from kit.programs.maven import bring_all
from sealberg.spark.jar import find_jar

HERE: Final = Path(__file__).resolve().parent
JAVA: Final = HERE / "java"
PACKAGE: Final = "org.apache.iceberg.spark."
# With one compiler the JVM would reserve 48 MB for code, which so many classes fill, and sweep them all the time.
FRUGAL: Final = ("-Xmx3g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m")
OPENED: Final = (  # to Spark and Hadoop, as Spark's scripts do
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)


@dataclass(frozen=True)
class Settings:
    """How the classes are run."""

    connector: str = "sealberg"
    rows: str = "one"
    row: int = 0  # of DELETE, UPDATE and MERGE
    vectorized: bool = True
    plaintext: bool = False  # whether sealberg reads the plaintext files that some tests add with Java


@dataclass(frozen=True)
class Result:
    """What became of one test with one row of parameters."""

    name: str  # sql.TestSelect#testSelect; the class alone, if its set-up failed
    row: str
    status: str  # successful, failed, aborted or skipped
    ms: int
    notes: tuple[str, ...]
    error: str
    trace: str


def run(names: list[str], folder: Path, settings: Settings, *, patience_s: float) -> list[Result]:
    """The results, in the order of the tests; `folder` gets whatever the tests write."""
    made, found = folder / "tmp", folder / "results.jsonl"
    made.mkdir()
    properties = {
        "suite.connector": settings.connector,
        "suite.rows": settings.rows,
        "suite.row": settings.row,
        "suite.vectorized": str(settings.vectorized).lower(),
        "suite.plaintext": str(settings.plaintext).lower(),
        "suite.python": sys.executable,
        "suite.results": found,
        "java.io.tmpdir": made,
        "user.timezone": "UTC",
        "derby.system.durability": "test",
        "derby.stream.error.file": made / "derby.log",
        "log4j2.configurationFile": JAVA / "log4j2.properties",
        "jdk.attach.allowAttachSelf": "true",
        "jdk.reflect.useDirectMethodHandle": "false",
        "io.netty.tryReflectionSetAccessible": "true",
    }
    command = [str(jdk().java), *FRUGAL, *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED)]
    command += [f"-D{name}={value}" for name, value in properties.items()]
    command += ["-cp", _classpath(), "suite.Main", *(PACKAGE + name for name in names)]
    log = folder / "log"
    with log.open("w") as said:
        done = subprocess.run(command, cwd=made, stdout=said, stderr=said, timeout=patience_s, check=False)
    if done.returncode or not found.exists():
        pytest.fail(f"the JVM of {', '.join(names)} ended with {done.returncode}:\n{log.read_text()[-4000:]}")
    return [_result(json.loads(line)) for line in found.read_text().splitlines()]


def _result(line: dict[str, Any]) -> Result:
    method, short = line.get("method"), line["class"].removeprefix(PACKAGE)
    return Result(
        f"{short}#{method}" if method else short,
        line["row"],
        line["status"],
        line["ms"],
        tuple(line["notes"]),
        line.get("error", ""),
        line.get("trace", ""),
    )


@cache
def _classpath() -> str:
    pyspark = find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        pytest.skip("PySpark is not there, which brings Spark and the metastore; pip install pyspark")
    libraries, spark = bring_all(HERE / "pom.xml"), Path(pyspark.origin).parent / "jars"
    jars = f"{libraries}/*:{find_jar()}:{spark}/*"
    sources = sorted(JAVA.rglob("*.java"))
    return f"{compile_java(*sources, classpath=jars)}:{jars}"


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="+")
    parser.add_argument("--connector", choices=("sealberg", "iceberg"), default="sealberg")
    parser.add_argument("--rows", choices=("one", "all"), default="one")
    parser.add_argument("--row", type=int, default=0)
    parser.add_argument("--no-vectorized", dest="vectorized", action="store_false")
    parser.add_argument("--plaintext", action="store_true")
    parser.add_argument("--out", type=Path, help="a folder for the results; otherwise they are shown only")
    options = vars(parser.parse_args())
    names, out = options.pop("names"), options.pop("out")
    with tempfile.TemporaryDirectory(prefix="sealberg-suite-", ignore_cleanup_errors=True) as made:
        for one in run(names, out or Path(made), Settings(**options), patience_s=7200):
            print(f"{one.status} {one.name} [{one.row}] {one.ms} ms {'; '.join(one.notes)}")
            if one.trace:
                print(one.trace)


if __name__ == "__main__":
    _main()
