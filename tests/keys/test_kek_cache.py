"""The cache of unwrapped KEKs: one call, for a while, and nothing left behind."""

from __future__ import annotations

import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import ConfigError, KmsUnavailableError
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.keyring import EncryptedKey

if TYPE_CHECKING:
    from collections.abc import Callable

KEK = EncryptedKey("K", b"wrapped", "hr", {"KEY_TIMESTAMP": "1"})
KEY = b"0123456789abcdef"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Kms:
    """Counts how often it is asked."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.calls = 0
        self.error = error
        self.until: Callable[[], bool] = lambda: True

    def __call__(self) -> bytes:
        self.calls += 1
        while not self.until():
            time.sleep(0.001)
        if self.error is not None:
            raise self.error
        return KEY


def waiting_in(cache: KekCache) -> int:
    """How many threads wait for the call that another has made."""
    call: Any
    (call,) = cache._state.here().pending.values()
    return len(call._condition._waiters)


def test_a_hundred_threads_asking_at_once_make_one_call() -> None:
    cache, kms = KekCache(), Kms()
    kms.until = lambda: waiting_in(cache) == 99

    def ask(_: int) -> bytes:
        return cache.get(KEK, kms)

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(ask, range(100))) == {KEY}
    assert kms.calls == 1


def test_a_failed_call_fails_everybody_who_waited_and_is_not_remembered() -> None:
    cache, kms = KekCache(), Kms(error=KmsUnavailableError("down", key_id="hr"))
    kms.until = lambda: waiting_in(cache) == 9

    def ask(_: int) -> str:
        with pytest.raises(KmsUnavailableError) as caught:
            cache.get(KEK, kms)
        return str(caught.value)

    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(ask, range(10))) == {"down (key id hr)"}
    assert kms.calls == 1
    kms.error, kms.until = None, lambda: True
    assert cache.get(KEK, kms) == KEY


def test_an_interrupt_of_the_one_that_calls_is_not_an_interrupt_of_those_that_wait() -> None:
    cache, entered = KekCache(), threading.Event()

    def interrupted() -> bytes:
        entered.set()
        while waiting_in(cache) < 1:
            time.sleep(0.001)
        raise KeyboardInterrupt

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            cache.get(KEK, interrupted)

    thread = threading.Thread(target=first)
    thread.start()
    entered.wait()
    assert cache.get(KEK, lambda: KEY) == KEY
    thread.join()


def test_a_key_lives_no_longer_than_its_time_and_not_much_shorter() -> None:
    for _ in range(50):
        clock = Clock()
        cache, kms = KekCache(3600, clock=clock), Kms()
        cache.get(KEK, kms)
        clock.now = 3239.9
        cache.get(KEK, kms)
        assert kms.calls == 1
        clock.now = 3600.0
        cache.get(KEK, kms)
        assert kms.calls == 2


def test_lifetimes_are_spread_so_that_a_fleet_does_not_return_at_once() -> None:
    cache = KekCache(3600, clock=Clock())
    for i in range(100):
        cache.put(EncryptedKey(str(i), b"", "hr"), KEY)
    expiries = {held.expires for held in cache._state.here().cached.values()}
    assert len(expiries) > 90
    assert min(expiries) >= 3240
    assert max(expiries) <= 3600


def test_zero_keeps_nothing() -> None:
    cache, kms = KekCache(0), Kms()
    cache.put(KEK, KEY)
    cache.get(KEK, kms)
    cache.get(KEK, kms)
    assert (kms.calls, len(cache)) == (2, 0)


def test_it_holds_no_more_than_its_bound_and_lets_the_least_used_go() -> None:
    cache = KekCache(most=2)
    a, b, c = (EncryptedKey(name, b"", "hr") for name in "abc")
    cache.put(a, KEY)
    cache.put(b, KEY)
    cache.get(a, Kms())
    cache.put(c, KEY)
    asked = Kms()
    cache.get(a, asked)
    cache.get(c, asked)
    assert asked.calls == 0
    cache.get(b, asked)
    assert asked.calls == 1
    assert len(cache) == 2


def test_another_wrapping_of_the_same_id_is_asked_for_anew() -> None:
    cache, kms = KekCache(), Kms()
    cache.get(KEK, kms)
    cache.get(EncryptedKey("K", b"wrapped by somebody else", "hr"), kms)
    cache.get(EncryptedKey("K", b"wrapped", "finance"), kms)
    assert kms.calls == 3


def test_closing_overwrites_the_keys() -> None:
    cache = KekCache()
    given = cache.get(KEK, Kms())
    held = next(iter(cache._state.here().cached.values())).key
    cache.close()
    assert held == bytes(16)
    assert given == KEY
    assert len(cache) == 0


def test_nothing_of_it_is_pickled_or_printed() -> None:
    cache = KekCache(60, most=7)
    cache.put(KEK, KEY)
    pickled = pickle.dumps(cache)
    assert KEY not in pickled
    again = pickle.loads(pickled)
    assert (len(again), again.ttl_s, again.most) == (0, 60, 7)
    assert "0123" not in repr(cache)


def test_a_forked_child_is_not_stuck_behind_a_call_of_its_parent() -> None:
    cache, entered = KekCache(), threading.Event()

    def slow() -> bytes:
        entered.set()
        time.sleep(1)
        return KEY

    thread = threading.Thread(target=cache.get, args=(KEK, slow))
    thread.start()
    entered.wait()
    pid = os.fork()
    if pid == 0:  # the child has no such thread; it must ask for itself
        os._exit(0 if cache.get(KEK, lambda: KEY) == KEY else 1)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()


@pytest.mark.parametrize(("ttl", "most"), [(-1, 1), (float("inf"), 1), (float("nan"), 1), (1, 0)])
def test_impossible_settings_are_refused(ttl: float, most: int) -> None:
    with pytest.raises(ConfigError):
        KekCache(ttl, most=most)
