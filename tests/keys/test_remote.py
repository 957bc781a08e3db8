"""The loop that retries, and the connection that belongs to one process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import (
    AccessDeniedError,
    ConfigError,
    KeyAccessError,
    KeyDestroyedError,
    KeyDisabledError,
    KeyNotFoundError,
    KmsThrottledError,
    KmsUnavailableError,
    WrongKeyError,
)
from sealberg.keys.kms.remote import RemoteKms
from sealberg.keys.kms.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

HURRY = RetryPolicy(max_attempts=3, backoff_s=0.001, max_backoff_s=0.002)


class Clock:
    """Time that passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def __call__(self) -> float:
        return self.now


class Failing:
    """Raises what it was given, one after the other, and then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class DictKms(RemoteKms):
    """Its connection is a dictionary that says which process made it."""

    provider = "dict"
    connects = 0

    def connect(self) -> dict[str, int]:
        self.connects += 1
        return {"pid": os.getpid()}

    def disconnect(self, connection: dict[str, int]) -> None:
        connection.clear()

    def translate(self, error: Exception, master_key_id: str) -> KeyAccessError | ConfigError | None:
        if isinstance(error, TimeoutError):
            return KmsUnavailableError("no answer", provider=self.provider, key_id=master_key_id)
        if isinstance(error, PermissionError):
            return AccessDeniedError("not you", provider=self.provider, key_id=master_key_id)
        return None

    def wrap(self, key: bytes, master_key_id: str) -> bytes:
        return key

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        return wrapped


def run(retry_policy: RetryPolicy, act: Callable[[], Any], clock: Clock) -> Any:
    return retry_policy.run(act, sleep=clock.sleep, clock=clock)


@pytest.mark.parametrize("kind", [KmsUnavailableError, KmsThrottledError])
def test_no_answer_and_too_many_requests_are_tried_again(kind: type[KmsUnavailableError]) -> None:
    act = Failing(kind("a"), kind("b"))
    assert run(RetryPolicy(), act, Clock()) == "answer"
    assert act.calls == 3


@pytest.mark.parametrize(
    "error",
    [
        AccessDeniedError("x"),
        KeyNotFoundError("x"),
        KeyDisabledError("x"),
        KeyDestroyedError("x"),
        WrongKeyError("x"),
        ConfigError("x"),
        RuntimeError("a bug"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_answer_is_final_even_when_it_is_no(error: Exception) -> None:
    act, clock = Failing(error), Clock()
    with pytest.raises(type(error)) as caught:
        run(RetryPolicy(), act, clock)
    assert caught.value is error
    assert (act.calls, clock.slept) == (1, [])


def test_attempts_end_and_are_counted_in_the_message() -> None:
    act = Failing(*(KmsUnavailableError("down", provider="dict") for _ in range(9)))
    with pytest.raises(KmsUnavailableError, match=r"^down \(provider dict, attempts 4\)$"):
        run(RetryPolicy(max_attempts=4), act, Clock())
    assert act.calls == 4


def test_the_type_of_the_last_failure_survives() -> None:
    with pytest.raises(KmsThrottledError):
        run(RetryPolicy(max_attempts=2), Failing(KmsUnavailableError("a"), KmsThrottledError("b")), Clock())


def test_no_attempt_begins_after_the_deadline() -> None:
    clock = Clock()

    def slow() -> str:
        clock.now += 4.0
        raise KmsUnavailableError("no answer")

    with pytest.raises(KmsUnavailableError, match="attempts 3"):
        run(RetryPolicy(total_timeout_s=10.0, max_attempts=100, backoff_s=0.01, max_backoff_s=0.01), slow, clock)
    assert clock.now < 13.0


def test_waits_are_drawn_between_nothing_and_a_doubling_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[float, float]] = []

    def draw(low: float, high: float) -> float:
        drawn.append((low, high))
        return high

    monkeypatch.setattr("sealberg.keys.kms.retry_policy.random.uniform", draw)
    clock = Clock()
    with pytest.raises(KmsUnavailableError):
        run(RetryPolicy(max_attempts=8), Failing(*(KmsUnavailableError("x") for _ in range(8))), clock)
    bounds = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert [low for low, _ in drawn] == [0] * 8
    assert [high for _, high in drawn[:7]] == pytest.approx(bounds)
    assert clock.slept == pytest.approx(bounds)


def test_waits_differ_from_client_to_client() -> None:
    waits = set()
    for _ in range(20):
        clock = Clock()
        run(RetryPolicy(), Failing(KmsUnavailableError("x")), clock)
        assert 0 <= clock.slept[0] <= 0.1
        waits.add(clock.slept[0])
    assert len(waits) > 1


def test_a_thousand_attempts_do_not_overflow() -> None:
    act = Failing(*(KmsUnavailableError("x") for _ in range(1999)))
    assert run(RetryPolicy(max_attempts=2000, total_timeout_s=1e9), act, Clock()) == "answer"


def test_every_field_is_a_property() -> None:
    retry_policy = RetryPolicy.from_properties(
        {
            "encryption.kms.connect-timeout-s": "1",
            "encryption.kms.read-timeout-s": "2.5",
            "encryption.kms.total-timeout-s": "3",
            "encryption.kms.max-attempts": "4",
            "encryption.kms.backoff-s": "0.5",
            "encryption.kms.max-backoff-s": "6",
            "warehouse": "elsewhere",
        }
    )
    assert retry_policy == RetryPolicy(1.0, 2.5, 3.0, 4, 0.5, 6.0)
    assert RetryPolicy.from_properties({}) == RetryPolicy()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("read-timeout-s", "soon"),
        ("read-timeout-s", "0"),
        ("read-timeout-s", "-1"),
        ("total-timeout-s", "inf"),
        ("backoff-s", "nan"),
        ("max-attempts", "0"),
        ("max-attempts", "2.5"),
    ],
)
def test_a_property_that_makes_no_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"encryption.kms.{name} must be .*{value}"):
        RetryPolicy.from_properties({f"encryption.kms.{name}": value})


def test_failures_of_the_provider_are_translated_and_bugs_are_not() -> None:
    client = DictKms(HURRY)
    timeouts = Failing(TimeoutError(), TimeoutError())
    assert client.call("hr", timeouts) == "answer"
    with pytest.raises(AccessDeniedError, match=r"not you \(provider dict, key id hr\)"):
        client.call("hr", Failing(PermissionError()))
    with pytest.raises(ZeroDivisionError):
        client.call("hr", Failing(ZeroDivisionError()))


def test_a_connection_is_made_once_and_late() -> None:
    client = DictKms()
    assert client.connects == 0
    assert client.connection is client.connection
    assert client.connects == 1


def test_threads_that_start_together_share_one_connection() -> None:
    client, barrier, seen = DictKms(), threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        seen.append(id(client.connection))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert len(set(seen)) == 1
    assert client.connects == 1


def test_reconnecting_twice_over_one_stale_connection_makes_one_new_one() -> None:
    client = DictKms()
    stale = client.connection
    fresh = client.reconnect(stale)
    assert fresh is not stale
    assert client.reconnect(stale) is fresh
    assert client.connection is fresh


def test_close_disconnects_once() -> None:
    client = DictKms()
    connection = client.connection
    client.close()
    assert connection == {}
    client.close()
    assert client.connects == 1


def test_a_pickled_client_leaves_its_connection_behind() -> None:
    client = DictKms(HURRY)
    assert client.connection["pid"] == os.getpid()
    again = pickle.loads(pickle.dumps(client))
    assert again.retry_policy == HURRY
    assert again.connection is not client.connection


def _in_child(client: DictKms, answer: Any) -> None:
    answer.send((client.connection["pid"], os.getpid()))
    client.close()
    answer.close()


# A process with threads that forks is exactly what is tested; newer Pythons warn of it.
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_connects_anew_and_leaves_its_parent_connected() -> None:
    client = DictKms()
    mine = client.connection
    held = client._held.here()
    with held.lock:  # a thread of the parent is connecting while another one forks
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_in_child, args=(client, theirs))
        child.start()
        theirs.close()
        assert ours.poll(20), "the child waits for a lock that nobody will release"
        made_in, ran_in = ours.recv()
    child.join(60)
    ours.close()
    assert made_in == ran_in != os.getpid()
    assert client.connection is mine
    assert mine == {"pid": os.getpid()}
