"""Statistics files, which table metadata name: they exist, have their size, and are not plaintext.

Iceberg has no encrypted form of statistics files. Java writes them as plaintext, and they hold values of the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.errors import SealbergError
from sealberg.files.file_io import ENCRYPTED_MAGICS, naming
from sealberg.jobs.checks.outcome import problem_of, reason_of

if TYPE_CHECKING:
    from sealberg.files.locations import Locations
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState


def check_statistics(state: TableState, outcome: Outcome, named: Locations) -> None:
    """Check every statistics file, and add it to `named`."""
    metadata = state.metadata
    for file in (*metadata.statistics, *metadata.partition_statistics):
        location = file.statistics_path
        named.add(location)
        try:
            stored = state.storage.new_input(location)
            with naming(location), stored.open() as stream:
                head = bytes(stream.read(4))
            size = len(stored)
        except (SealbergError, OSError) as error:
            outcome.count("statistics", stored=file.file_size_in_bytes)
            found = problem_of(error, location)
            if found is None:
                outcome.skip(location, reason_of(error))
            else:
                outcome.find(found.code, found.message, location, file.snapshot_id)
            continue
        outcome.count("statistics", stored=size)
        if size != file.file_size_in_bytes:
            text = f"the metadata claim {file.file_size_in_bytes} bytes, the file has {size}"
            outcome.find("size", text, location, file.snapshot_id)
        if head not in ENCRYPTED_MAGICS:
            text = "the statistics file is not encrypted, and it holds values of the table"
            outcome.find("plaintext", text, location, file.snapshot_id)
        else:
            outcome.skip(location, "the statistics file is encrypted, and table metadata hold no key for it")
