"""Errors without the frames in which a key was.

    @keyless
    def open_list_key(...)     an error leaves this function without the frames inside of it

A traceback holds every frame that an error has left, and a frame holds its local variables: error reporters record
them. A function that works with key bytes gives and takes them in objects that do not show them, and is decorated; what
was below it, in our code, in the client of a KMS or in a library, leaves the traceback of the error and of its causes.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def keyless(act: Callable[P, R]) -> Callable[P, R]:
    """The function, whose errors do not keep its frames; its arguments must hold no bytes of a key."""

    @functools.wraps(act)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        handled = sys.exc_info()[1]  # of the caller, with frames of the caller
        try:
            return act(*args, **kwargs)
        except BaseException as error:
            forget_frames(error, handled)
            raise

    return call


def forget_frames(error: BaseException, handled: BaseException | None = None) -> None:
    """Take the frames out of an error, and of those that it came from, up to one that is handled already."""
    seen: set[int] = {id(handled)}
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        waiting += [each.__cause__, each.__context__]
