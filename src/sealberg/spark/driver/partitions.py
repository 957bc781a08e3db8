"""PARTITIONED BY, understood: Spark's transforms as a partition spec of Iceberg.

{"transform": "bucket", "width": "4", "column": ["id"]}  ──>  1000: id_bucket: bucket[4](1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import TimeTransform, parse_transform

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

UNITS: Final = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
SINGULAR: Final = {plural: unit for unit, plural in UNITS.items()} | {"date": "day", "date_hour": "hour"}


def partition_spec(partitions: list[dict[str, Any]], schema: Schema) -> PartitionSpec:
    """The spec, or an error that names the column."""
    fields: list[PartitionField] = []
    for number, one in enumerate(partitions, 1000):
        column = ".".join(one["column"])
        kind = SINGULAR.get(one["transform"], one["transform"])
        width = one.get("width")
        transform = parse_transform(f"{kind}[{width}]" if width is not None else kind)
        if str(transform) != (f"{kind}[{width}]" if width is not None else kind):
            raise ConfigError(f"unknown partition transform {one['transform']}")
        suffix = {"bucket": "_bucket", "truncate": "_trunc", "identity": ""}.get(kind, f"_{kind}")
        source = schema.find_field(column)
        _check_transform(transform, source, width, fields)
        fields.append(PartitionField(source.field_id, number, transform, f"{column}{suffix}"))
    return PartitionSpec(*fields)


def _check_transform(transform: Any, source: NestedField, width: str | None, before: list[PartitionField]) -> None:
    """What Java refuses is refused here; a table with such a partition could not be written."""
    if width is not None and int(width) < 1:
        raise ConfigError(f"PARTITIONED BY: the width of {transform} of column {source.name} must be above zero")
    if not transform.can_transform(source.field_type):
        raise ConfigError(f"PARTITIONED BY: {transform} cannot be made of column {source.name}, a {source.field_type}")
    twice = [one for one in before if one.source_id == source.field_id and isinstance(one.transform, TimeTransform)]
    if twice and isinstance(transform, TimeTransform):
        raise ConfigError(
            f"PARTITIONED BY: column {source.name} has {twice[0].transform} and {transform}; the finer one is enough"
        )
