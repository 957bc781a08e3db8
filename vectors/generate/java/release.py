"""One release of Iceberg Java, running: `with running("1.12.0", folder) as java: java.sql("create table {t} ...")`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13"
TEST_KMS: Final = "org.apache.iceberg:iceberg-core:1.11.0:jar:tests"  # no other release has published one
OPENED: Final = ("java.net", "java.lang", "java.util", "java.util.concurrent")
HERE: Final = Path(__file__).parent
METASTORE: Final = HERE.parents[2] / "tests/java/Metastore.java"
HELPER: Final = "org.apache.iceberg.encryption.Corpus"


@contextmanager
def running(release: str, folder: Path) -> Iterator[Java]:
    """Spark with Iceberg of this release on a metastore of its own; the tables lie under `folder`/wh."""
    import pyspark

    spark_jars = Path(pyspark.__file__).parent / "jars"
    jars = [_jar(f"{RUNTIME}:{release}"), _jar(TEST_KMS)]
    with tempfile.TemporaryDirectory(prefix="sealberg-corpus-") as scratch:
        work = Path(scratch)
        _compile(METASTORE, work / "metastore-classes", f"{spark_jars}/*")
        _compile(HERE / "Corpus.java", work / "classes", ":".join([*map(str, jars), f"{spark_jars}/*"]))
        with _metastore(work, spark_jars) as port:
            java = Java(folder, port, [*jars, work / "classes"])
            try:
                yield java
            finally:
                java.spark.stop()


def _jar(coordinates: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg" / "jars"
    cache.mkdir(parents=True, exist_ok=True)
    _, artifact, version, *classifier = coordinates.split(":")
    jar = cache / f"{'-'.join([artifact, version, *classifier[1:]])}.jar"
    if not jar.exists():
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={cache}"]
        subprocess.run(command, check=True, timeout=900)
    return jar


def _compile(source: Path, classes: Path, classpath: str) -> None:
    classes.mkdir()
    command = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", classpath, "-d", str(classes), str(source)]
    subprocess.run(command, check=True, timeout=300)


@contextmanager
def _metastore(work: Path, jars: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    home = work / "metastore"
    home.mkdir()
    java = shutil.which("java") or "java"
    opened = [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    frugal = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dderby.system.durability=test"]
    classpath = f"{work}/metastore-classes:{jars}/*"
    command = [java, *frugal, *opened, "-cp", classpath, "Metastore", str(port), str(home)]
    with (home / "log").open("wb") as log, subprocess.Popen(command, cwd=home, stdout=log, stderr=log) as server:
        try:
            deadline = time.monotonic() + 120
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the metastore does not listen:\n{(home / 'log').read_text()[-2000:]}")
                time.sleep(0.2)
            yield port
        finally:
            server.terminate()


class Java:
    """Spark with Iceberg's Hive catalog `h`, and Iceberg's API through `helper`."""

    def __init__(self, folder: Path, port: int, classpath: list[Path]) -> None:
        from pyspark.sql import SparkSession

        settings = {
            "spark.driver.extraClassPath": ":".join(map(str, classpath)),
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": f"{folder}/spark",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.h": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.h.type": "hive",
            "spark.sql.catalog.h.uri": f"thrift://127.0.0.1:{port}",
            "spark.sql.catalog.h.warehouse": f"file:{folder}/wh",
            "spark.sql.catalog.h.cache-enabled": "false",
            "spark.sql.catalog.h.encryption.kms-impl": "org.apache.iceberg.encryption.UnitestKMS",
        }
        builder: Any = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")
        self.spark.sql(f"create namespace h.db location 'file:{folder}/wh/db.db'")
        self._jvm = self.spark.sparkContext._jvm
        self.helper = getattr(self._jvm, HELPER)
        conf = self._jvm.org.apache.hadoop.hive.conf.HiveConf()
        conf.set("hive.metastore.uris", f"thrift://127.0.0.1:{port}")
        self._client = self._jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)

    def sql(self, text: str) -> list[Any]:
        found: list[Any] = self.spark.sql(text).collect()
        return found

    def table(self, name: str) -> Any:
        """An org.apache.iceberg.Table."""
        return self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self.spark._jsparkSession, f"h.db.{name}")

    def parameters(self, name: str) -> dict[str, str]:
        """What the metastore keeps beside the pointer."""
        return dict(self._client.getTable("db", name).getParameters())
