"""Storage that fails by seed, and says whose each file is.

    catalog property py-io-impl = chaos.storage.ChaosFileIO

Every file that is created is logged with the operation under way, so that a file which nobody names is known to be of
an operation that was killed, is unknown, or could not delete it. Errors come before a file is there, in the middle of
it, at its end, at its deletion and when it is read; `trouble` in the folder of the round makes all of storage full or
read-only for as long as it is there.
"""

from __future__ import annotations

import errno
import os
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


@dataclass
class Trouble:
    """What this process meets in storage.

    Args:
        log: told of each file that is created, and of each that could not be deleted.
        rates: how often each step fails: create, write, close, delete, open.
        sign: a file whose text says that storage is `full` or `read-only` for now.
    """

    log: Callable[..., None] | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    dice: random.Random = field(default_factory=lambda: random.Random(0))
    sign: Path | None = None

    def meet(self, step: str, location: str) -> None:
        state = self.state
        if state == "read-only" and step in ("create", "delete"):
            raise OSError(errno.EROFS, f"chaos: {os.strerror(errno.EROFS)}", location)
        if state == "full" and step == "write":
            raise OSError(errno.ENOSPC, f"chaos: {os.strerror(errno.ENOSPC)}", location)
        if self.dice.random() < self.rates.get(step, 0.0):
            raise OSError(errno.EIO, f"chaos: {step} failed", location)

    @property
    def state(self) -> str:
        if self.sign is None:
            return ""
        try:
            return self.sign.read_text()
        except FileNotFoundError:
            return ""

    def say(self, event: str, location: str) -> None:
        if self.log is not None:
            self.log(event, file=location)


HERE = Trouble()  # of this process; a worker sets it before it opens its catalog


class ChaosFileIO(PyArrowFileIO):
    """PyArrow's, with trouble."""

    def new_input(self, location: str) -> Any:
        return _Input(location, super().new_input(location))

    def new_output(self, location: str) -> Any:
        return _Output(location, super().new_output(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        try:
            HERE.meet("delete", place)
            super().delete(place)
        except FileNotFoundError:
            raise
        except OSError:
            HERE.say("undeleted", place)
            raise


class _Input(InputFile):
    def __init__(self, location: str, inner: InputFile) -> None:
        super().__init__(location)
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        return self._inner.exists()

    def open(self, seekable: bool = True) -> Any:
        HERE.meet("open", self.location)
        return self._inner.open(seekable)


class _Output(OutputFile):
    def __init__(self, location: str, inner: OutputFile) -> None:
        super().__init__(location)
        self._inner = inner

    def __len__(self) -> int:
        return len(self._inner)

    def exists(self) -> bool:
        return self._inner.exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._inner.to_input_file())

    def create(self, overwrite: bool = False) -> Any:
        HERE.meet("create", self.location)
        HERE.say("created", self.location)
        return _Stream(self.location, self._inner.create(overwrite))


class _Stream:
    """An output stream: half of what is written may be there when a write fails, and all of it when a close does."""

    def __init__(self, location: str, inner: Any) -> None:
        self._location = location
        self._inner = inner

    def write(self, data: Any) -> Any:
        try:
            HERE.meet("write", self._location)
        except OSError:
            whole = bytes(data)
            self._inner.write(whole[: len(whole) // 2])
            raise
        return self._inner.write(data)

    def close(self) -> None:
        if not getattr(self._inner, "closed", False):
            self._inner.close()
            HERE.meet("close", self._location)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
