"""The current snapshot is there, and it is that of the branch main. Java refuses other metadata.

PyIceberg takes them, and reads a table whose current snapshot is missing as an empty table. Java also refuses a tag or
another branch without its snapshot; here `verify` finds it, and whoever reads it gets an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def check_current(metadata: TableMetadata) -> None:
    """FormatError for a current snapshot that is missing, and for a branch main that is at another one."""
    current, main = metadata.current_snapshot_id, metadata.refs.get(MAIN_BRANCH)
    if main is not None and main.snapshot_id != current:
        raise FormatError(
            f"table metadata have the current snapshot {'none' if current is None else current}, and their branch main "
            f"has the snapshot {main.snapshot_id}: expected the same"
        )
    if current is not None and metadata.snapshot_by_id(current) is None:
        raise FormatError(f"table metadata have the current snapshot {current}, which is not among their snapshots")
