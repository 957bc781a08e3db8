"""Encrypted tables in an object store against plaintext PyIceberg tables on the same server: requests, and latency.

    requests   of an append, a scan, a filter and a delete, each by a client with empty caches; counted by a proxy in
               front of moto
    latency    a scan of 64 files of 8 MB with 20 ms added to each request by the proxy, over the same without delay

`counted` measures no time, so the tests run it too.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import load_catalog as load_plain

import sealberg
from bench.figures import Figure, best
from kit.servers import store_servers
from kit.servers.store_proxy import store_proxy
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kit.servers.store_proxy import Seen, StoreProxy
    from kit.servers.store_servers import Store

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.k1": "00" * 16}
LATENCY_S: Final = 0.020
FILES: Final = 64
FILE_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class Requests:
    """The requests of one operation, on a plaintext table and on an encrypted table."""

    operation: str
    plain: Seen
    encrypted: Seen

    @property
    def ratio(self) -> float:
        return len(self.encrypted.requests) / len(self.plain.requests)

    def heads_of_data(self) -> int:
        return self.encrypted.count("HEAD", r"\.parquet$")

    def listings(self) -> int:
        return sum("list-type" in request.query for request in self.encrypted.requests)


def figures(rounds: int) -> Iterator[Figure]:
    store = store_servers.s3()
    with store_proxy(store.address) as proxy:
        there = store.through(proxy.address)
        counts = counted(there, proxy, rows=500_000)
        for each in counts:
            note = f"{len(each.encrypted.requests)} against {len(each.plain.requests)}"
            yield Figure(f"S3: requests of {each.operation}", each.ratio, 1.0, at_least=False, note=note)
        scan = next(each for each in counts if each.operation == "scan")
        yield Figure("S3: HEAD requests per data file of a scan", scan.heads_of_data() / 2, 0, at_least=False)
        yield _overlap(there, proxy, min(rounds, 3))


def counted(store: Store, proxy: StoreProxy, *, rows: int) -> list[Requests]:
    """The requests of each operation, on tables of two files."""
    ids = np.arange(rows)
    table = pa.table({"id": ids, "v": np.random.default_rng(7).random(rows), "s": (ids % 1000).astype(str)})
    found: dict[str, list[Seen]] = {}
    for load, given in ((load_plain, {}), (sealberg.load_catalog, KMS)):
        with _loaded(load, store, given) as catalog:
            properties = {"encryption.key-id": "k1"} if given else {}
            made = catalog.create_table("db.t", table.schema, properties=properties)
            made.append(table)
            for name, act in _operations(table).items():
                loaded = catalog.load_table("db.t")
                cache.clear()
                with proxy.counting() as seen:
                    act(loaded)
                found.setdefault(name, []).append(seen)
    return [Requests(name, *both) for name, both in found.items()]


def _operations(rows: pa.Table) -> dict[str, Callable[[Any], object]]:
    return {
        "append": lambda table: table.append(rows),
        "scan": lambda table: table.scan().to_arrow(),
        "filter": lambda table: table.scan("id == 77", selected_fields=("id", "v")).to_arrow(),
        "delete": lambda table: table.delete("id == 77"),
    }


def _overlap(store: Store, proxy: StoreProxy, rounds: int) -> Figure:
    count = FILE_BYTES // 8
    random = np.random.default_rng(7)
    with _loaded(sealberg.load_catalog, store, KMS) as catalog:
        schema = pa.schema([("v", pa.float64())])
        table = catalog.create_table("db.wide", schema, properties={"encryption.key-id": "k1"})
        for _ in range(FILES):
            table.append(pa.table({"v": random.random(count)}))

        def scan() -> None:
            cache.clear()
            assert catalog.load_table("db.wide").scan().to_arrow().num_rows == FILES * count

        def slowly() -> None:
            with proxy.latency(LATENCY_S):
                scan()

        times = best({"quick": scan, "slow": slowly}, rounds)
    note = f"{times['slow']:.2f} s against {times['quick']:.2f} s"
    name = f"S3: scan of {FILES} files of 8 MB with 20 ms a request, over none"
    return Figure(name, times["slow"] / times["quick"], 1.3, at_least=False, note=note)


@contextmanager
def _loaded(load: Callable[..., Any], store: Store, given: dict[str, str]) -> Iterator[Any]:
    with tempfile.TemporaryDirectory() as folder:
        place = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"{store.warehouse}-{'e' if given else 'p'}"}
        with load("bench", type="sql", **place, **store.properties, **given) as catalog:
            catalog.create_namespace("db")
            yield catalog
