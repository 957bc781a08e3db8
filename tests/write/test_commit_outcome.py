"""What is known about a failed commit, and which files are deleted for it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.write.commit_outcome import CommitAttempt, CommitNotApplied, CommitStateUnknown
from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), CommitStateUnknownException("of another")])
def test_an_error_before_the_request_says_that_the_commit_was_not_applied(error: BaseException) -> None:
    attempt = CommitAttempt()
    with pytest.raises(type(error)), attempt.not_applied():
        raise error
    assert attempt.outcome(error) == CommitNotApplied(error)


def test_a_commit_failed_exception_says_that_the_commit_was_not_applied() -> None:
    error = CommitFailedException("updated by another process")
    assert CommitAttempt().outcome(error) == CommitNotApplied(error)


@pytest.mark.parametrize("error", [ValueError("?"), KeyboardInterrupt(), OSError(), CommitStateUnknownException("?")])
def test_an_error_about_which_nothing_is_known_leaves_the_state_unknown(error: BaseException) -> None:
    assert CommitAttempt().outcome(error) == CommitStateUnknown(error)


def test_an_error_that_was_handled_says_nothing_about_a_later_error() -> None:
    attempt = CommitAttempt()
    with contextlib.suppress(ValueError), attempt.not_applied():
        raise ValueError("locked: tried again")
    later = ValueError("no answer to the second request")
    assert attempt.outcome(later) == CommitStateUnknown(later)


def test_another_attempt_knows_nothing_about_this_one() -> None:
    error = ValueError()
    with contextlib.suppress(ValueError), CommitAttempt().not_applied():
        raise error
    assert CommitAttempt().outcome(error) == CommitStateUnknown(error)


@pytest.mark.parametrize(("applied", "left"), [("no", False), ("unknown", True), ("yes", True)])
def test_files_are_deleted_only_if_the_commit_was_surely_not_applied(tmp_path: Path, applied: str, left: bool) -> None:
    file = tmp_path / "manifest.avro"
    file.write_bytes(b"x")
    attempt = CommitAttempt()
    with contextlib.suppress(ConnectionError), StagedFiles(PyArrowFileIO(), [str(file)], attempt):
        if applied == "no":
            with attempt.not_applied():
                raise ConnectionError("before the request")
        if applied == "unknown":
            raise ConnectionError("the answer was lost")
    assert file.exists() is left


def test_files_of_a_block_that_commits_nothing_are_deleted_after_every_error(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    file.write_bytes(b"x")
    with pytest.raises(KeyboardInterrupt), StagedFiles(PyArrowFileIO(), [str(file)]):
        raise KeyboardInterrupt
    assert not file.exists()
