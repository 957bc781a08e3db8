"""Statistics files, which table metadata name: they exist, have their size, are not plaintext, and open.

key in encryption-keys ──> every block of the AGS1 file is authenticated, the footer of a Puffin file parses,
                           and so does the Parquet file of partition statistics
no key                 ──> plaintext is a finding: Iceberg Java writes statistics unencrypted, with hashes, numbers
                           or partition values of the table
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sealberg.errors import FormatError, SealbergError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.file_io import ENCRYPTED_MAGICS, naming
from sealberg.files.puffin.container import read_footer
from sealberg.format.ags1 import Layout
from sealberg.jobs.checks.outcome import problem_of, reason_of
from sealberg.metadata.statistics import V3StatisticsFile, statistics_files
from sealberg.table.statistics import open_key

if TYPE_CHECKING:
    from sealberg.files.locations import Locations
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.metadata.statistics import AnyStatisticsFile


def check_statistics(state: TableState, outcome: Outcome, named: Locations) -> None:
    """Check every statistics file, and add it to `named`."""
    for file in statistics_files(state.metadata):
        location = file.statistics_path
        named.add(location)
        try:
            _check(state, file, outcome)
        except (SealbergError, OSError) as error:
            outcome.count("statistics", stored=file.file_size_in_bytes)
            found = problem_of(error, location)
            if found is None:
                outcome.skip(location, reason_of(error))
            else:
                outcome.find(found.code, found.message, location, file.snapshot_id)


def _check(state: TableState, file: AnyStatisticsFile, outcome: Outcome) -> None:
    location, stored = file.statistics_path, state.storage.new_input(file.statistics_path)
    with naming(location), stored.open() as stream:
        head = bytes(stream.read(4))
    size, key, encrypted = len(stored), open_key(state.metadata, state.io, file), head in ENCRYPTED_MAGICS
    units = _authenticate(state, file, key) if encrypted and key is not None else 0
    outcome.count("statistics", stored=size, checked=size if units else None, units=units)
    if size != file.file_size_in_bytes:
        text = f"the metadata claim {file.file_size_in_bytes} bytes, the file has {size}"
        outcome.find("size", text, location, file.snapshot_id)
    if not encrypted:
        text = "the statistics file is not encrypted, and it holds values of the table; `stats --remove` removes it"
        outcome.find("plaintext", text, location, file.snapshot_id)
    elif key is None:
        outcome.skip(location, "the statistics file is encrypted, and table metadata hold no key for it")


def _parse(reader: Ags1Reader) -> None:
    reader.seek(0)
    try:
        pq.read_table(pa.BufferReader(reader.read()))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the partition statistics are not a Parquet file: {error}") from None


def _authenticate(state: TableState, file: AnyStatisticsFile, key: KeyMetadata) -> int:
    """Open every block; returns their number."""
    with naming(file.statistics_path), Ags1Reader(state.storage.new_input(file.statistics_path).open(), key) as reader:
        for _ in reader.windows():
            pass
        if isinstance(file, V3StatisticsFile):
            read_footer(reader)
        else:
            _parse(reader)
    return Layout(key.file_length or 0).block_count
