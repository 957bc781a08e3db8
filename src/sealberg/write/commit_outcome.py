"""Whether a failed commit was applied, as a type.

    CommitNotApplied      the catalog does not have the commit and never will: its files may be deleted
    CommitStateUnknown    the catalog may have the commit, or may still apply it: its files stay

    attempt = CommitAttempt()
    with StagedFiles(io, locations, attempt):      deletes the files after CommitNotApplied only
        catalog.commit(table, requirements, updates, attempt)

A catalog puts every step that cannot have committed anything into `with attempt.not_applied():`, which covers the
steps before its request and the raising of an error after an answer that said no. An error from anywhere else is
`CommitStateUnknown`, unless it is PyIceberg's `CommitFailedException`. So an error that nobody thought of never deletes
a file. The errors themselves are raised unchanged: their types are those that callers of PyIceberg expect.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class CommitNotApplied:
    """No catalog names the files of this commit, and none will."""

    error: BaseException


@dataclass(frozen=True)
class CommitStateUnknown:
    """The commit may be in the catalog, or come there later."""

    error: BaseException


FailedCommit = CommitNotApplied | CommitStateUnknown


class CommitAttempt:
    """One request to a catalog, and what is known about it if it fails. A retry is another attempt."""

    def __init__(self) -> None:
        self._not_applied: BaseException | None = None

    @contextlib.contextmanager
    def not_applied(self) -> Iterator[None]:
        """An error that leaves this block means that this attempt was not applied."""
        try:
            yield
        except BaseException as error:
            # This error, and no later one: the step may be tried again, and then fail in doubt.
            self._not_applied = error
            raise

    def outcome(self, error: BaseException) -> FailedCommit:
        """What is known about this attempt, which this error has ended."""
        if error is self._not_applied or isinstance(error, CommitFailedException):
            return CommitNotApplied(error)
        return CommitStateUnknown(error)
