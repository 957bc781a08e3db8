"""Statistics files in table metadata, and the keys that open them.

    statistics, partition-statistics    {snapshot-id, statistics-path, ...}
    encryption-keys                └──── {key-id, encrypted-key-metadata: sealed under a KEK, encrypted-by-id: KEK,
                                          properties: {statistics-path}}

The key names its file. The Iceberg community discusses a `key-id` of statistics files for the specification, which
`statistics_key_id` understands. It is not written yet: Iceberg Java 1.12 hashes metadata as Java would write them, so a
member that Java does not know makes Java refuse the table. Java keeps the properties of keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, Field
from pyiceberg.table.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.keys.keyring import Keyring
    from sealberg.metadata.table_metadata import V3TableMetadata

STATISTICS_PATH: Final = "statistics-path"


class V3BlobMetadata(BlobMetadata):
    """The description of a blob; PyIceberg's class refuses types that it does not know."""

    model_config = ConfigDict(extra="allow")

    type: str  # type: ignore[assignment]  # a wider type


class V3StatisticsFile(StatisticsFile):
    """A table statistics file, with the id of its key if a writer of a later specification wrote it."""

    model_config = ConfigDict(extra="allow")

    key_id: str | None = Field(alias="key-id", default=None)
    blob_metadata: list[V3BlobMetadata] = Field(alias="blob-metadata")  # type: ignore[assignment]


class V3PartitionStatisticsFile(PartitionStatisticsFile):
    """A partition statistics file, with the id of its key if a writer of a later specification wrote it."""

    model_config = ConfigDict(extra="allow")

    key_id: str | None = Field(alias="key-id", default=None)


AnyStatisticsFile = V3StatisticsFile | V3PartitionStatisticsFile


def statistics_files(metadata: V3TableMetadata) -> Iterator[AnyStatisticsFile]:
    """All statistics files of a table: those of the table, then those of its partitions."""
    yield from metadata.statistics
    yield from metadata.partition_statistics


def statistics_key_id(ring: Keyring, file: StatisticsFile | PartitionStatisticsFile) -> str | None:
    """The id of the key of a statistics file, or None if the metadata name no key for the file."""
    own = getattr(file, "key_id", None)  # a user's update may hold a file of PyIceberg's class
    if own is not None:
        return str(own)
    path = file.statistics_path
    return next((entry.key_id for entry in ring if entry.properties.get(STATISTICS_PATH) == path), None)


def needed_keys(metadata: V3TableMetadata) -> frozenset[str]:
    """The ids of the keys of manifest lists and statistics files that the table needs; their KEKs are needed too."""
    lists = {key_id for snapshot in metadata.snapshots if (key_id := getattr(snapshot, "key_id", None)) is not None}
    ring = metadata.encryption_keys
    files = {key_id for file in statistics_files(metadata) if (key_id := statistics_key_id(ring, file)) is not None}
    return frozenset(lists | files)


def statistics_json(file: StatisticsFile | PartitionStatisticsFile) -> dict[str, Any]:
    """The JSON object in Java's order, with the members that Java does not know."""
    found: dict[str, Any] = file.model_dump(by_alias=True, exclude_none=True)
    blobs = found.pop("blob-metadata", None)
    if blobs is None:
        return found
    return {**found, "blob-metadata": [_blob_json(blob) for blob in blobs]}


def _blob_json(blob: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in blob.items() if name != "properties" or value}  # as Java: never empty
