"""The snapshots of branches and tags are there, and the current one is that of main. Java refuses other metadata.

PyIceberg takes them, and reads a table whose current snapshot is missing as an empty table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def check_refs(metadata: TableMetadata) -> None:
    """FormatError for a snapshot that is missing, and for a branch main that is not at the current one."""
    current, main = metadata.current_snapshot_id, metadata.refs.get(MAIN_BRANCH)
    if main is not None and main.snapshot_id != current:
        raise FormatError(
            f"table metadata have the current snapshot {'none' if current is None else current}, and their branch main "
            f"has the snapshot {main.snapshot_id}: expected the same"
        )
    if current is not None and metadata.snapshot_by_id(current) is None:
        raise FormatError(f"table metadata have the current snapshot {current}, which is not among their snapshots")
    for name, ref in metadata.refs.items():
        if metadata.snapshot_by_id(ref.snapshot_id) is None:
            raise FormatError(
                f"table metadata have the {ref.snapshot_ref_type} {name[:100]} of the snapshot {ref.snapshot_id}, "
                "which is not among their snapshots"
            )
