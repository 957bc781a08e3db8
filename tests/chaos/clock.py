"""A clock that is wrong by some seconds, for this process alone."""

from __future__ import annotations

import datetime as dt
import time


def shift(seconds: float) -> None:
    """From now on this process lives that much in the future, or in the past."""
    if not seconds:
        return
    real, real_ns, ns = time.time, time.time_ns, int(seconds * 10**9)

    class Shifted(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Shifted:
            return cls.fromtimestamp(real() + seconds, tz)

    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + ns
    dt.datetime = Shifted  # type: ignore[misc]
