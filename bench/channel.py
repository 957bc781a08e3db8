"""The channel between Java and Python against py4j's callbacks, which it replaced.

    one JVM, one Python    ChannelLoop.byChannel ──Unix domain socket──> BridgeServer ──┐
                           ChannelLoop.byPy4j    ──TCP, py4j callback──> Callback ──────┴──> the same Dispatcher

Both ways start with a record in Java and end with a record in Java: encoding and decoding are in the time, and
planning is not. The plan is the answer to a scan of a real table of 10,000 files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyspark

from bench.figures import Figure, best
from bench.tables import commit_files
from kit.programs.commands import compile_java
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.spark.driver.backend import Backend
from sealberg.spark.driver.bridge_server import BridgeServer
from sealberg.spark.driver.dispatcher import Dispatcher
from sealberg.spark.jar import find_jar
from sealberg.spark.protocol.handles import TableHandle
from sealberg.spark.protocol.scans import Planning, ScanRequest
from sealberg.spark.types import spark_schema
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES: Final = 10_000
KILOBYTE: Final = 1000
CALLS: Final = 2000
PLANS: Final = 10


def figures(rounds: int) -> Iterator[Figure]:
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import SparkSession

    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    classes = compile_java(Path(__file__).parent / "ChannelLoop.java", classpath=f"{find_jar()}:{jars}")
    builder: Any = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraClassPath", f"{find_jar()}:{classes}").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        answer = _plan_answer(Path(folder))
        dispatcher = Dispatcher()
        dispatcher.install("bench", _Answers(answer))  # type: ignore[arg-type] # it answers to two verbs of its own
        server = BridgeServer(dispatcher)
        try:
            gateway: Any = spark.sparkContext._gateway
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            loop, callback = gateway.jvm.sealberg.bridge.ChannelLoop, _Callback(dispatcher)

            def both(length: int, times: int) -> tuple[float, float]:
                """Seconds of a call by the channel and by py4j, the best of all rounds after the first two."""
                nanoseconds: dict[str, list[int]] = {"channel": [], "py4j": []}
                acts = {
                    "channel": lambda: nanoseconds["channel"].append(
                        loop.byChannel(server.path, server.token, length, times)
                    ),
                    "py4j": lambda: nanoseconds["py4j"].append(loop.byPy4j(callback, length, times)),
                }
                best(acts, rounds + 2)
                return min(nanoseconds["channel"][2:]) / 1e9, min(nanoseconds["py4j"][2:]) / 1e9

            channel, py4j = both(KILOBYTE, CALLS)
            note = f"py4j {py4j * 1000:.3f} ms"
            yield Figure("channel: one call and back, 1 kB", channel * 1000, 0.3, False, "ms", note)
            yield Figure("channel: one call and back, 1 kB, over py4j", channel / py4j, 1.0, False)
            channel, py4j = both(0, PLANS)
            note = f"{channel * 1000:.0f} ms, py4j {py4j * 1000:.0f} ms; planning is left out on both sides"
            yield Figure("channel: answer of a plan of 10,000 files, over py4j", channel / py4j, 1.0, False, "", note)
        finally:
            server.close()
            spark.stop()


class _Answers:
    """Stands where a Backend stands; its answers are ready."""

    def __init__(self, plan_answer: Any) -> None:
        self._plan_answer = plan_answer

    def call(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"ok": arguments if verb == "echo" else self._plan_answer}


class _Callback:
    """Called by py4j."""

    class Java:
        """py4j's way of saying which interface this is."""

        implements: ClassVar = ["sealberg.bridge.ChannelLoop$Callback"]

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def answer(self, request: str) -> str:
        return self._dispatcher.answer(request.encode()).decode()


def _plan_answer(folder: Path) -> Any:
    """What the backend answers to a scan of all files, as JSON."""
    catalog = EncryptedSqlCatalog(
        "bench",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=folder.as_uri(),
        **{"encryption.kms-type": "memory", "encryption.kms.memory.key.k": "ab" * 16},
    )
    catalog.create_namespace("b")
    schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    table = catalog.create_table("b.many", schema, properties={"encryption.key-id": "k"})
    assert isinstance(table, CatalogTable)
    commit_files(table, FILES)
    metadata = table.metadata
    handle = TableHandle(
        ("b", "many"),
        str(metadata.table_uuid),
        metadata.current_schema_id,
        past=False,
        snapshot_id=metadata.current_snapshot_id,
        metadata_location=table.metadata_location,
    )
    request = ScanRequest(handle, spark_schema(table.schema()), (), Planning("c", 1, 1, 0))
    answer = Backend(catalog).call(ScanRequest.verb(), request.to_json())
    return answer["ok"]
