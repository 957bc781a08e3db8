"""PARTITIONED BY: Spark's transforms as a partition spec of Iceberg.

PartitionTransform("bucket", ("id",), width="4")  ──>  1000: id_bucket: bucket[4](1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import TimeTransform, parse_transform

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    from sealberg.spark.protocol.tables import PartitionTransform

UNITS: Final = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
SINGULAR: Final = {plural: unit for unit, plural in UNITS.items()} | {"date": "day", "date_hour": "hour"}


def partition_spec(partitions: Sequence[PartitionTransform], schema: Schema) -> PartitionSpec:
    """The spec, or an error that names the column."""
    fields: list[PartitionField] = []
    for number, partition in enumerate(partitions, 1000):
        column = ".".join(partition.column)
        name = partition.transform.lower()  # Spark keeps the case of HOURS(at)
        kind = SINGULAR.get(name, name)
        width = partition.width
        transform = parse_transform(f"{kind}[{width}]" if width is not None else kind)
        if str(transform) != (f"{kind}[{width}]" if width is not None else kind):
            raise ConfigError(f"unknown partition transform {partition.transform}")
        suffix = {"bucket": "_bucket", "truncate": "_trunc", "identity": ""}.get(kind, f"_{kind}")
        source = schema.find_field(column)
        _check_transform(transform, source, width, fields)
        fields.append(PartitionField(source.field_id, number, transform, f"{column}{suffix}"))
    return PartitionSpec(*fields)


def _check_transform(transform: Any, source: NestedField, width: str | None, before: list[PartitionField]) -> None:
    """Refuse a partition that Java refuses: nobody could write to a table with such a partition."""
    if width is not None and int(width) < 1:
        raise ConfigError(f"PARTITIONED BY: the width of {transform} of column {source.name} must be above zero")
    if not transform.can_transform(source.field_type):
        raise ConfigError(f"PARTITIONED BY: {transform} cannot be made of column {source.name}, a {source.field_type}")
    twice = [
        field for field in before if field.source_id == source.field_id and isinstance(field.transform, TimeTransform)
    ]
    if twice and isinstance(transform, TimeTransform):
        raise ConfigError(
            f"PARTITIONED BY: column {source.name} has {twice[0].transform} and {transform}; the finer one is enough"
        )
