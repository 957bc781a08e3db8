"""The rows of `manifests` and `all_manifests`: one for each line of a manifest list.

`all_manifests` has a manifest once for each snapshot that refers to it. Its `key_metadata` is always null: the column
holds the key of the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent
from pyiceberg.types import PrimitiveType

from sealberg.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.manifest import ManifestFile, PartitionFieldSummary
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

Row = dict[str, Any]


class ManifestRows:
    """Makes rows of manifests."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._specs = metadata.specs()

    def of(self, manifests: Iterable[ManifestFile], snapshot_id: int | None = None) -> Iterator[Row]:
        """`snapshot_id` is that of the snapshot that refers to the manifests, for `all_manifests`."""
        for manifest in manifests:
            yield {**self._row(manifest), "reference_snapshot_id": snapshot_id, "key_metadata": None}

    def _row(self, manifest: ManifestFile) -> Row:
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        is_data = manifest.content == ManifestContent.DATA
        if manifest.partition_spec_id not in self._specs:
            raise FormatError(
                f"{manifest.manifest_path!s}: the manifest uses partition spec {manifest.partition_spec_id}, "
                "which is not in the table metadata"
            )
        fields = self._specs[manifest.partition_spec_id].fields
        row: Row = {
            "content": int(manifest.content),
            "path": str(manifest.manifest_path),
            "length": manifest.manifest_length,
            "partition_spec_id": manifest.partition_spec_id,
            "added_snapshot_id": manifest.added_snapshot_id,
            "partition_summaries": [
                self._summary(field, summary) for field, summary in zip(fields, manifest.partitions or (), strict=False)
            ],
        }
        for name, count in zip(("added", "existing", "deleted"), counts, strict=True):
            row[f"{name}_data_files_count"] = count if is_data else 0
            row[f"{name}_delete_files_count"] = 0 if is_data else count
        return row

    def _summary(self, field: PartitionField, summary: PartitionFieldSummary) -> Row:
        source = self._source(field.source_id)
        kind = None if source is None else field.transform.result_type(source)

        def text(stored: bytes | None) -> str:
            if stored is None or not isinstance(kind, PrimitiveType):
                return "null"  # as in Java, where a bound is a text
            return field.transform.to_human_string(kind, from_bytes(kind, stored))

        return {
            "contains_null": summary.contains_null,
            "contains_nan": summary.contains_nan,
            "lower_bound": text(summary.lower_bound),
            "upper_bound": text(summary.upper_bound),
        }

    def _source(self, field_id: int) -> IcebergType | None:
        """The type of the column, which may have been dropped since."""
        for schema in (self._metadata.schema(), *reversed(self._metadata.schemas)):
            if field_id in schema.field_ids:
                return schema.find_type(field_id)
        return None
