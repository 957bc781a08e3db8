"""The positions of the parts of an encrypted Parquet file.

PARE | pages ... | page indexes | footer | its length | PARE
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow.parquet as pq


def page_indexes(stored: bytes, metadata: pq.FileMetaData) -> range:
    """The bytes between the last page and the footer. Spark and Java read them, pyarrow does not."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    chunks = [group.column(column) for group in groups for column in range(metadata.num_columns)]
    ends = [(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size for chunk in chunks]
    return range(max(ends), len(stored) - 8 - int.from_bytes(stored[-8:-4], "little"))
