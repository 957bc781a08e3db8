"""The bloom filters that a table's properties configure, for the writers of Parquet files.

write.parquet.bloom-filter-enabled.column.NAME   true or false
write.parquet.bloom-filter-fpp.column.NAME       probability of a false positive, 0.01 unless set
write.parquet.bloom-filter-ndv.column.NAME       the expected number of distinct values
write.parquet.bloom-filter-max-bytes             the size limit of one filter, 1 MiB unless set
write.parquet.bloom-filter-adaptive-enabled      parquet-java only: tries several sizes
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

PREFIX: Final = "write.parquet.bloom-filter-"
MAX_BYTES: Final = f"{PREFIX}max-bytes"
ADAPTIVE: Final = f"{PREFIX}adaptive-enabled"
DEFAULT_MAX_BYTES: Final = 1 << 20
DEFAULT_FPP: Final = 0.01
DEFAULT_NDV: Final = 1 << 20  # pyarrow's own


class IgnoredPropertyWarning(UserWarning):
    """A write property of the table has no effect on a file."""


@dataclass(frozen=True)
class BloomFilter:
    """The settings of one column's filter."""

    fpp: float = DEFAULT_FPP
    ndv: int | None = None


@dataclass(frozen=True)
class BloomFilters:
    """The filters by the path of their column in a Parquet file, and the settings of all of them."""

    columns: Mapping[str, BloomFilter] = field(default_factory=dict)
    max_bytes: int = DEFAULT_MAX_BYTES
    adaptive: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema) -> BloomFilters:
        given = {name: value for name, value in properties.items() if name.startswith(PREFIX)}
        enabled = _by_column(given, "enabled")
        for name, value in enabled.items():
            if value.lower() not in ("true", "false"):
                raise ConfigError(f"{PREFIX}enabled.column.{name} must be true or false, found {value!r}")
        fpps, ndvs = _by_column(given, "fpp"), _by_column(given, "ndv")
        columns = {}
        for name in (name for name, value in enabled.items() if value.lower() == "true"):
            path = parquet_path(schema, name)
            if path is None:
                # A warning instead of an error, as in Java: the column may have been dropped later.
                _warn(f"{PREFIX}enabled.column.{name} is ignored: there is no column {name}")
                continue
            fpp = _number(f"{PREFIX}fpp.column.{name}", fpps.get(name), DEFAULT_FPP)
            if not 0 < fpp < 1:
                raise ConfigError(f"{PREFIX}fpp.column.{name} must be between 0 and 1, found {fpps[name]!r}")
            ndv = _number(f"{PREFIX}ndv.column.{name}", ndvs.get(name), 0)
            columns[path] = BloomFilter(fpp, int(ndv) or None)
        max_bytes = int(_number(MAX_BYTES, given.get(MAX_BYTES), DEFAULT_MAX_BYTES))
        if max_bytes < 1:
            raise ConfigError(f"{MAX_BYTES} must be at least 1, found {max_bytes}")
        return cls(columns, max_bytes, given.get(ADAPTIVE, "false").lower() == "true")

    def for_pyarrow(self) -> dict[str, Any]:
        """Options of `EncryptedParquetWriter`, and of `pq.ParquetWriter` for a plaintext file."""
        if self.adaptive:
            _warn(f"Parquet writer option(s) {[ADAPTIVE]} not implemented in pyarrow")
        chosen = {path: {"fpp": bloom.fpp, "ndv": self._ndv(bloom)} for path, bloom in self.columns.items()}
        return {"bloom_filter_options": chosen} if chosen else {}

    def _ndv(self, bloom: BloomFilter) -> int:
        """The number of values that fit: a split block filter needs -8 ndv / ln(1 - fpp^(1/8)) bits."""
        fits = int(self.max_bytes * -math.log(1 - bloom.fpp ** (1 / 8)))
        return max(1, min(bloom.ndv or DEFAULT_NDV, fits))


def parquet_path(schema: Schema, name: str) -> str | None:
    """The path in a Parquet file of an Iceberg column such as `tags.element` or `prices.value`."""
    from pyiceberg.types import ListType, MapType, StructType

    def walk(kind: IcebergType, names: list[str]) -> list[str] | None:
        if not names:
            return [] if kind.is_primitive else None
        first, rest = names[0], names[1:]
        inner: IcebergType | None = None
        step = [first]
        match kind:
            case StructType():
                for at in range(len(names), 0, -1):  # a name may contain dots
                    found = kind.field_by_name(".".join(names[:at]))
                    if found is not None:
                        inner, step, rest = found.field_type, [found.name], names[at:]
                        break
            case ListType() if first == "element":
                inner, step = kind.element_type, ["list", "element"]
            case MapType() if first in ("key", "value"):
                inner = kind.key_type if first == "key" else kind.value_type
                step = ["key_value", first]
        found_below = None if inner is None else walk(inner, rest)
        return None if found_below is None else [*step, *found_below]

    path = walk(schema.as_struct(), name.split("."))
    return None if path is None else ".".join(path)


def _by_column(given: Mapping[str, str], kind: str) -> dict[str, str]:
    prefix = f"{PREFIX}{kind}.column."
    return {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}


def _number(name: str, text: str | None, default: float) -> float:
    try:
        return default if text is None else float(text)
    except ValueError:
        raise ConfigError(f"{name} must be a number, found {text!r}") from None


def _warn(message: str) -> None:
    warnings.warn(message, IgnoredPropertyWarning, stacklevel=4)
