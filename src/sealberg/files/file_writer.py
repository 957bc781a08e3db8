"""What every writer of a file does when it is left, and what every reader does when it cannot be opened.

    with writer:                     close() at the end, abort() after an error
        with writer.aborting():      abort() after an error in one step, for callers that use no `with writer`

    with closing_on_error(stream):   close() after an error only: an object that could not be made keeps nothing open

An aborted file cannot be read: a writer that dies in the middle must not leave something that looks whole.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType


class FileWriter:
    """A mixin: a subclass has `close`, `abort` and, if it can be unusable, `check_usable`."""

    if TYPE_CHECKING:  # only declared: a stream's own `super().close()` must find the class after this one

        def close(self) -> object: ...

        def abort(self) -> None: ...

    def check_usable(self) -> None:
        """Raise if the writer can write nothing more."""

    def __enter__(self) -> Self:
        self.check_usable()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    @contextlib.contextmanager
    def aborting(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.abort()
            raise


class Closable(Protocol):
    def close(self) -> object: ...


@contextlib.contextmanager
def closing_on_error(stream: Closable) -> Iterator[None]:
    try:
        yield
    except BaseException:
        stream.close()
        raise
