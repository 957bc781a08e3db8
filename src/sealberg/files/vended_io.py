"""A FileIO over credentials that a catalog hands out for a short time.

    new_input("s3://lake/t/data/1.parquet")
        lease: s3://lake/t/metadata -> FileIO 1, s3://lake -> FileIO 2       the longest prefix that fits
        ends in less than MARGIN_S? a new lease is asked for first, by one thread

A file that is open goes on with the credentials that it was opened with; every file that is opened later has fresh
ones, so a scan or a write can last longer than they do. If the catalog does not answer, the old credentials are used
until they end.

LentFileIO   the credentials of one lease, for a process that cannot reach the catalog
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import FileIO

from sealberg.errors import StorageAccessError
from sealberg.files.confined_io import same_scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.io import InputFile, OutputFile

_log: Final = logging.getLogger(__name__)
MARGIN_S: Final = 300.0  # as Iceberg Java has it
# Names under which REST catalogs say when credentials end, in milliseconds since 1970.
ENDS: Final = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "expiration-time")
ENDS_PREFIXES: Final = ("adls.sas-token-expires-at-ms",)


def ends_at(properties: Mapping[str, Any]) -> float | None:
    """When the first of these credentials ends, in seconds since 1970; None where nothing says so."""
    found = [
        int(value) / 1000
        for name, value in properties.items()
        if (name in ENDS or name.startswith(ENDS_PREFIXES)) and str(value).isdigit()
    ]
    return min(found, default=None)


def longest_prefix(prefixes: Iterable[str], location: str) -> str | None:
    """The longest of those that the location begins with, in whichever scheme of its store; as Java's S3FileIO."""
    fitting = (prefix for prefix in prefixes if same_scheme(location, prefix).startswith(prefix))
    return max(fitting, key=len, default=None)


@dataclass(frozen=True)
class Lease:
    """The FileIO of each prefix, and when their credentials end.

    Args:
        by_prefix: the prefix "" fits every location, and must be there.
        begins_s: when they were asked for.
        ends_s: None for credentials that last.
    """

    by_prefix: Mapping[str, FileIO]
    begins_s: float
    ends_s: float | None

    def io(self, location: str) -> FileIO:
        """The FileIO with the longest prefix that fits, whichever name of its scheme the location has."""
        return self.by_prefix[longest_prefix(self.by_prefix, location) or ""]

    def each(self, change: Callable[[FileIO], FileIO]) -> Lease:
        """The same lease with other FileIOs."""
        return replace(self, by_prefix={prefix: change(io) for prefix, io in self.by_prefix.items()})

    def is_old(self, now_s: float) -> bool:
        """Will the credentials end soon? Those that live shortly are renewed in the last tenth of their life."""
        if self.ends_s is None:
            return False
        return now_s >= self.ends_s - min(MARGIN_S, (self.ends_s - self.begins_s) / 10)


class VendedFileIO(FileIO):
    """Opens each file with the credentials that are current.

    Args:
        lease: what the catalog gave with the table.
        renew: asks the catalog for a new one.
    """

    def __init__(self, lease: Lease, renew: Callable[[], Lease]) -> None:
        self._lease = lease
        self._renew = renew
        self._lock = threading.Lock()
        super().__init__(lease.by_prefix[""].properties)

    @property
    def properties(self) -> dict[str, Any]:
        """Those of now, for whoever hands them on to other processes."""
        return dict(self.current().by_prefix[""].properties)

    @properties.setter
    def properties(self, value: object) -> None:
        """FileIO's own constructor sets them; they come from the lease."""

    @property
    def ends_s(self) -> float | None:
        """When the credentials of now end, in seconds since 1970."""
        return self._lease.ends_s

    def io(self, location: str) -> FileIO:
        """What opens this location now."""
        return self.current().io(location)

    def new_input(self, location: str) -> InputFile:
        return self.current().io(location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self.current().io(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        self.current().io(place).delete(place)

    def current(self) -> Lease:
        """The lease of now; a new one, if the last one ends soon."""
        if not self._lease.is_old(time.time()):
            return self._lease
        with self._lock:
            lease = self._lease
            if not lease.is_old(now := time.time()):  # another thread has been here
                return lease
            try:
                self._lease = self._renew()
            except Exception:
                if lease.ends_s is not None and now >= lease.ends_s:
                    raise
                _log.warning("the storage credentials end soon, and the catalog gave no new ones", exc_info=True)
            return self._lease


class LentFileIO(FileIO):
    """Opens files with the credentials of one lease, where nobody can renew them: a task on another machine.

    Raises:
        StorageAccessError: when a file is opened after the credentials have ended.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        super().__init__(lease.by_prefix[""].properties)

    def io(self, location: str) -> FileIO:
        """What opens this location, until the credentials end."""
        ends = self._lease.ends_s
        if ends is not None and time.time() >= ends:
            when = datetime.fromtimestamp(ends, UTC).isoformat(timespec="seconds")
            raise StorageAccessError(
                f"{location}: the credentials that the catalog lent for the storage ended at {when}, and only the "
                "process that started the job can ask for new ones: run the job with more cores, or on threads of "
                "that process (without --spark)"
            )
        return self._lease.io(location)

    def new_input(self, location: str) -> InputFile:
        return self.io(location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self.io(location).new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        self.io(place).delete(place)
