"""Files that were written and that no commit names yet: one owner deletes them when the change fails.

    with StagedFiles(io) as staged:
        staged.add(location)     before the file is opened, so that half a file is deleted too
        ...                      an error in this block deletes every file that was added
    # after the block: the files belong to whoever called

    with StagedFiles(io, attempt=attempt) as staged:
        staged.create(place, text)   a new file: one that is there already is neither changed nor deleted
        ...                          a commit of it; an error deletes it if the commit was surely not applied

A file that cannot be deleted is an orphan, and not an error: the error that ended the block matters more.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Self

from sealberg.files.removal import remove_file
from sealberg.write.commit_outcome import CommitNotApplied

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from pyiceberg.io import FileIO

    from sealberg.metadata.manifest import DataFileV3
    from sealberg.write.commit_outcome import CommitAttempt


class StagedFiles:
    """Locations of files that exist only for a change that is not committed yet.

    `attempt` is the commit that the block makes; without one, the block commits nothing and every error deletes.
    """

    def __init__(self, io: FileIO, locations: Iterable[str] = (), attempt: CommitAttempt | None = None) -> None:
        self._io = io
        self._attempt = attempt
        self._locations = dict.fromkeys(locations)

    def add(self, *locations: str) -> None:
        self._locations.update(dict.fromkeys(locations))

    def create(self, location: str, content: bytes) -> None:
        """Write a file that does not exist; FileExistsError, and the file stays as it is, if it does."""
        refuse_existing(self._io, location)
        self.add(location)  # not before: what somebody else has put there is not ours to delete
        with self._io.new_output(location).create(overwrite=True) as stream:
            stream.write(content)

    def add_files(self, files: Iterable[DataFileV3]) -> list[DataFileV3]:
        """Add data or delete files that a writer made; returned as a list."""
        made = list(files)
        self.add(*(str(file.file_path) for file in made))
        return made

    @property
    def locations(self) -> tuple[str, ...]:
        return tuple(self._locations)

    def keep_only(self, locations: Iterable[str]) -> None:
        """Delete every staged file that is not among these."""
        kept = set(locations)
        discard(self._io, [location for location in self._locations if location not in kept])
        self._locations = {location: None for location in self._locations if location in kept}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        if self._attempt is None or isinstance(self._attempt.outcome(error), CommitNotApplied):
            discard(self._io, self._locations)


def refuse_existing(io: FileIO, location: str) -> None:
    """FileExistsError if there is a file.

    `create(overwrite=False)` of PyArrow looks for a folder of that name, too, which is one more request to a store.
    """
    try:
        io.new_input(location).open().close()
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, "there is a file already, and it is not overwritten", location)


def discard(io: FileIO, locations: Iterable[str]) -> None:
    """Delete files that no metadata names, as far as they can be deleted."""
    for location in locations:
        remove_file(io, location)  # one that stays is an orphan: the error that brought us here matters more
