"""The collector rests while somebody needs it to, and is left as it was found."""

from __future__ import annotations

import gc
import os
import threading
from typing import TYPE_CHECKING

import pytest

from sealberg.metadata.gc_pause import gc_paused

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def awake() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_wakes_when_the_last_one_is_done() -> None:
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_wakes_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), gc_paused():
        raise ValueError("x")
    assert gc.isenabled()


def test_one_that_was_asleep_stays_asleep() -> None:
    gc.disable()
    with gc_paused():
        pass
    assert not gc.isenabled()


def test_threads_share_it() -> None:
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with gc_paused():
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert inside.wait(60)
    with gc_paused():
        pass
    assert not gc.isenabled(), "the other thread is not done"
    done.set()
    thread.join()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_does_not_inherit_the_rest() -> None:
    with gc_paused():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not gc.isenabled()
