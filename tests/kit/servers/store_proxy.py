"""A proxy in front of an object store: it counts requests, adds latency and fails on demand.

    with store_proxy(store.address) as proxy:
        store = store.through(proxy.address)
        with proxy.counting() as seen: ...                          seen.methods() == {"GET": 3, "PUT": 1}
        with proxy.latency(0.020): ...                              every request waits first
        with proxy.failing(SlowDown(), "GET", r"\\.parquet$", times=2): ...     the next two such requests
        with proxy.at_once() as most: ...                           most.times: the largest number of concurrent
        requests
        proxy.need_token("fresh")                                   only requests with this session token of S3 pass

Requests and responses pass unchanged, with their signatures. kit.servers.store_faults has the faults. The proxy is a
separate process (kit.servers.store_proxy_server) that ends with the block, and holds bodies in memory.
"""

from __future__ import annotations

import collections
import itertools
import os
import pickle
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit.servers.store_faults import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.servers.store_faults import Fault, StoreRequest


@dataclass
class Seen:
    """The requests of a block; complete at its end."""

    requests: list[StoreRequest] = field(default_factory=list)

    def methods(self, key: str = "") -> dict[str, int]:
        """The number of requests of each method whose key matches."""
        wanted = re.compile(key)
        return dict(collections.Counter(each.method for each in self.requests if wanted.search(each.key)))

    def count(self, method: str | None = None, key: str = "") -> int:
        wanted = re.compile(key)
        return sum((method in (None, each.method)) and bool(wanted.search(each.key)) for each in self.requests)


@dataclass
class Met:
    """How often a fault was met, or the largest number of concurrent requests; complete at the end of the block."""

    times: int = 0


class StoreProxy:
    """The address for clients, and the faults that they meet."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.address = str(self._result())

    @contextmanager
    def counting(self) -> Iterator[Seen]:
        seen, before = Seen(), self._ask("requests")
        try:
            yield seen
        finally:
            seen.requests += self._ask("since", before)

    @contextmanager
    def latency(self, seconds: float) -> Iterator[None]:
        self._ask("wait", seconds)
        try:
            yield
        finally:
            self._ask("wait", 0.0)

    @contextmanager
    def failing(
        self, fault: Fault, method: str | None = None, key: str = "", *, times: int | None = None, skip: int = 0
    ) -> Iterator[Met]:
        """Requests of the method whose key matches the pattern meet the fault; `skip` of them pass first."""
        number, met = next(self._numbers), Met()
        self._ask("add", number, Rule(fault, method, key, None if times is None else times + skip, -skip))
        try:
            yield met
        finally:
            met.times = self._ask("met", number)
            self._ask("remove", number)

    @contextmanager
    def at_once(self) -> Iterator[Met]:
        """The largest number of concurrent requests in the block; complete at its end."""
        most = Met()
        self._ask("most")
        try:
            yield most
        finally:
            most.times = self._ask("most")

    def need_token(self, token: str | None) -> None:
        """Let only requests with this session token of S3 pass; with None all."""
        self._ask("need_token", token)

    def _ask(self, verb: str, *arguments: Any) -> Any:
        with self._lock:
            assert self._process.stdin is not None
            pickle.dump((verb, arguments), self._process.stdin)
            self._process.stdin.flush()
            return self._result()

    def _result(self) -> Any:
        assert self._process.stdout is not None
        return pickle.load(self._process.stdout)


@contextmanager
def store_proxy(upstream: str) -> Iterator[StoreProxy]:
    """A proxy in front of the server at this address."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "kit.servers.store_proxy_server", upstream]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield StoreProxy(process)
        finally:
            process.kill()
