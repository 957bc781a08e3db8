"""Where copies go: the storage, the keys and the names of the new files of one table.

    target.new_file("s3://lake/t/data/a.parquet", "parquet") ──> s3://lake/new/data/<digest of the source>-<run>.parquet
                                                                 and a new key; no key in a plaintext table

The name of a copy begins with a digest of the location of its source, so a later run finds the copies of an earlier
run without a list of its own. The rest of the name differs in each run, so two runs never write the same file.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from sealberg.jobs.copying.file_copy import CopyTask
from sealberg.jobs.task_io import storage_only

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.locations import LocationProvider

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.keys.manager import EncryptionManager
    from sealberg.metadata.manifest import DataFileV3

DIGEST_LENGTH: Final = 32
_COPY: Final = re.compile(r"[0-9a-f]{32}-[0-9a-f]{12}(-[0-9a-f]{8})?\.(parquet|avro|orc|puffin)")


def digest_of(location: str) -> str:
    """The beginning of the name of every copy of this file."""
    return hashlib.sha256(location.encode()).hexdigest()[:DIGEST_LENGTH]


def digest_in(location: str) -> str:
    """The digest in the name of a copy."""
    return str(location).rpartition("/")[2][:DIGEST_LENGTH]


def is_copy_name(name: str) -> bool:
    """Whether a file has the form of name that copies get."""
    return _COPY.fullmatch(name) is not None


@dataclass(frozen=True)
class Target:
    """The table that is made.

    Args:
        storage: the bytes, without keys.
        encryption: makes the keys of new files; None for a plaintext table.
    """

    storage: FileIO = field(repr=False)
    encryption: EncryptionManager | None = field(repr=False)
    locations: LocationProvider = field(repr=False)
    run: str = field(default_factory=lambda: uuid.uuid4().hex)

    def new_key(self) -> KeyMetadata | None:
        return None if self.encryption is None else self.encryption.new_file_key()

    def new_file(self, source: str, ending: str) -> tuple[str, KeyMetadata | None]:
        """A place and a key for the copy of a file."""
        return self.locations.new_data_location(f"{digest_of(source)}-{self.run[:12]}.{ending}"), self.new_key()

    def new_metadata_file(self, name: str) -> str:
        return self.locations.new_metadata_location(name)

    @cached_property
    def _task_storage(self) -> FileIO:
        return storage_only(self.storage)

    def task(self, source_io: FileIO, file: DataFileV3, *, allow_missing_length: bool) -> CopyTask:
        """The work on one file.

        Args:
            source_io: the storage of the source, without keys (`storage_only`).
        """
        location = str(file.file_path)
        place, key = self.new_file(location, file.file_format.value.lower())
        return CopyTask(
            source_io,
            self._task_storage,
            location,
            place,
            file.file_format.value,
            file.record_count,
            int(file.file_size_in_bytes or 0),
            file.key_metadata,
            None if key is None else key.encode(),
            allow_missing_length,
        )
