"""Which metadata tables there are.

    of one snapshot    files data_files delete_files entries manifests partitions position_deletes
    of all snapshots   all_files all_data_files all_delete_files all_entries all_manifests
    of the table       snapshots history refs metadata_log_entries keys

VERSION AS OF, TIMESTAMP AS OF and the read options choose a snapshot for the first line, are refused for the second,
and change nothing for the third, which is the same at every snapshot: so it is in Java.
"""

from __future__ import annotations

from typing import Final

from pyiceberg.manifest import ManifestContent

FILES: Final = ("files", "data_files", "delete_files")
OF_ONE_SNAPSHOT: Final = (*FILES, "entries", "manifests", "partitions", "position_deletes")
ALL_FILES: Final = ("all_files", "all_data_files", "all_delete_files")
OF_ALL_SNAPSHOTS: Final = (*ALL_FILES, "all_entries", "all_manifests")
OF_THE_TABLE: Final = ("snapshots", "history", "refs", "metadata_log_entries", "keys")
KINDS: Final = (*OF_ONE_SNAPSHOT, *OF_ALL_SNAPSHOTS, *OF_THE_TABLE)

ENTRIES: Final = ("entries", "all_entries")
BY_ENTRY: Final = (*FILES, *ALL_FILES, *ENTRIES)  # a row for each line of a manifest


def contents(kind: str) -> tuple[ManifestContent, ...]:
    """The manifests that a table of files or entries reads."""
    if kind.endswith("data_files"):
        return (ManifestContent.DATA,)
    if kind.endswith("delete_files"):
        return (ManifestContent.DELETES,)
    return (ManifestContent.DATA, ManifestContent.DELETES)
