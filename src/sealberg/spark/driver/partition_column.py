"""The metadata column `_partition`: the partition values of a file, in the fields that a query asks for.

    SELECT _partition.p FROM t    ──>  PlannedFile.partition = ("a",)

The fields are those of all partition specs; a file has null in the fields of other specs than its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.types import TimeType

from sealberg.spark.driver.arrow_json import json_value
from sealberg.spark.metadata_tables.entry_rows import Partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

    from sealberg.spark.protocol.codec import Struct

PARTITION: Final = "_partition"
SPEC_ID: Final = "_spec_id"


@dataclass(frozen=True)
class PartitionColumn:
    """Makes the values of `_partition` for files; for a query without the column, none.

    Args:
        names: the fields of `_partition` that the query asks for; None if it does not ask for the column.
        asked: whether the query asks for `_partition` or `_spec_id`.
    """

    partitions: Partitions
    names: Sequence[str] | None
    asked: bool

    @classmethod
    def of(cls, metadata: TableMetadata, columns: Struct) -> PartitionColumn:
        by_name = {field["name"]: field["type"] for field in columns["fields"]}
        asked = by_name[PARTITION]["fields"] if PARTITION in by_name else None
        names = None if asked is None else [field["name"] for field in asked]
        return cls(Partitions(metadata), names, asked is not None or SPEC_ID in by_name)

    def values(self, file: DataFile) -> tuple[Any, ...] | None:
        """The values as `arrow_json` writes them; None, which Java shows as NULL, for a table without partitions."""
        row = self.partitions.of(file) if self.names is not None else None
        if row is None or self.names is None:
            return None
        times = {field.name for field in self.partitions.fields if isinstance(field.kind, TimeType)}
        return tuple(_json(row[name], is_time=name in times) for name in self.names)


def _json(value: Any, *, is_time: bool) -> Any:
    if is_time and value is not None:
        return value * 1000  # Spark counts nanoseconds
    return json_value(value, pa.binary() if isinstance(value, bytes) else pa.null())
