"""A process that forks while its threads hold the locks of keys: the child goes on, and does not wait for them."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.keyring import EncryptedKey
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile, KeystoreKms
from sealberg.keys.per_process import PerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow  # servers that restart, or children that are forked under load

KEY = bytes(range(16))
KEK = EncryptedKey("kek", b"wrapped", "hr", {"KEY_TIMESTAMP": "1750000000000"})


def in_child(act: Callable[[], object]) -> int:
    """Run `act` in a forked child; its exit status, or the signal of a timeout as a negative number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads that forks is what is tested
        child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(120)
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def keystore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeystoreKms:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "x")
    keys = Keystore((MasterKey.generate("hr", datetime.now(UTC), 16),))
    KeystoreFile(tmp_path / "k.age").create(keys, "x", work_factor=10)
    return KeystoreKms.from_properties({"encryption.kms.keystore.path": str(tmp_path / "k.age")})


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    made = sealberg.load_catalog(
        "t",
        type="sql",
        uri=f"sqlite:///{tmp_path}/c.db",
        warehouse=f"file://{tmp_path}/warehouse",
        **{"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16},
    )
    made.create_namespace("db")
    schema = pa.schema([("id", pa.int64())])
    made.create_table("db.t", schema, properties={"encryption.key-id": "hr"}).append(
        pa.table({"id": [1]}, schema=schema)
    )
    return made


def test_a_child_opens_the_keystore_that_a_thread_of_its_parent_is_opening(
    keystore: KeystoreKms, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on, parent = threading.Event(), threading.Event(), os.getpid()
    read = KeystoreFile.read

    def slow(file: KeystoreFile, passphrase: str) -> Keystore:
        if os.getpid() == parent:
            opening.set()
            go_on.wait(30)
        return read(file, passphrase)

    monkeypatch.setattr(KeystoreFile, "read", slow)
    thread = threading.Thread(target=keystore.wrap, args=(KEY, "hr"))
    thread.start()
    assert opening.wait(60)
    assert in_child(lambda: keystore.wrap(KEY, "hr")) == 0
    go_on.set()
    thread.join()


@pytest.mark.parametrize("verb", ["get", "put", "close", "len"])
def test_a_child_uses_the_cache_that_a_thread_of_its_parent_has_locked(verb: str) -> None:
    cache = KekCache()
    cache.put(KEK, KEY)
    acts: dict[str, Callable[[], object]] = {
        "get": lambda: cache.get(KEK, lambda: KEY),
        "put": lambda: cache.put(KEK, KEY),
        "close": cache.close,
        "len": lambda: len(cache),
    }
    with cache._state.here().lock:
        assert in_child(acts[verb]) == 0
    assert len(cache) == 1


def test_a_child_does_not_hold_the_keks_of_its_parent() -> None:
    cache = KekCache()
    cache.put(KEK, KEY)

    def child() -> None:
        assert len(cache) == 0
        assert len(cache._state._values) == 1
        assert cache.get(KEK, lambda: b"unwrapped anew") == b"unwrapped anew"

    assert in_child(child) == 0
    assert cache.get(KEK, lambda: b"") == KEY


def test_a_child_does_not_wait_for_a_call_that_a_thread_of_its_parent_makes() -> None:
    cache, calling, go_on = KekCache(), threading.Event(), threading.Event()

    def slow() -> bytes:
        calling.set()
        go_on.wait(30)
        return KEY

    thread = threading.Thread(target=cache.get, args=(KEK, slow))
    thread.start()
    assert calling.wait(60)
    assert in_child(lambda: cache.get(KEK, lambda: KEY)) == 0
    go_on.set()
    thread.join()


def test_a_child_uses_the_catalog_that_a_thread_of_its_parent_has_locked(catalog: Any) -> None:
    metadata = catalog.load_table("db.t").metadata
    with catalog._once.here():
        assert in_child(lambda: catalog._encryption(("db", "t"), metadata).kms.wrap(KEY, "hr")) == 0


def test_children_forked_under_load_all_finish(keystore: KeystoreKms, catalog: Any) -> None:
    cache, stop = KekCache(), threading.Event()
    metadata = catalog.load_table("db.t").metadata

    def use_keys() -> None:
        fresh: KeystoreKms = pickle.loads(pickle.dumps(keystore))
        for client in (keystore, fresh):
            assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY
        assert cache.get(KEK, lambda: KEY) == KEY
        cache.put(KEK, KEY)
        manager = catalog._encryption(("db", "t"), metadata)
        assert manager.kms.unwrap(manager.kms.wrap(KEY, "hr"), "hr") == KEY

    def work() -> None:
        while not stop.is_set():
            keystore.close()  # so that it is opened again, which takes long and is done under the lock
            use_keys()
            cache.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(use_keys) for _ in range(20)] == [0] * 20
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_threads_of_one_process_agree_on_one_value() -> None:
    made = PerProcess(object, keep_inherited=False)
    barrier, seen = threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        seen.append(made.here())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert pickle.loads(pickle.dumps(made))._values == {}
