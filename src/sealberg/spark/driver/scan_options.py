"""How the rows of a scan come to Spark: sizes of tasks, batches or rows, aggregates out of metadata.

    read option                   setting of the session, spark.sql.iceberg.*     property of the table
    split-size                    read.split-size                                 read.split.target-size
    file-open-cost                                                                read.split.open-file-cost
                                  read.adaptive-split-size.enabled                read.split.adaptive-size.enabled
                                  read.adaptive-split-size.parallelism
    vectorization-enabled         vectorization.enabled                           read.parquet.vectorization.enabled
    aggregate-push-down-enabled   aggregate-push-down.enabled
    locality                      locality.enabled

The first of a line that is set counts. What nobody sets is left to Spark's own settings of files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError
from sealberg.spark.driver.session_settings import FLAGS, SessionSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

SIZES: Final = {
    "split-size": ("split-size", "read.split-size", "read.split.target-size"),
    "file-open-cost": ("file-open-cost", None, "read.split.open-file-cost"),
    "parallelism": (None, "read.adaptive-split-size.parallelism", None),
}
SWITCHES: Final = {
    "adaptive": (None, "read.adaptive-split-size.enabled", "read.split.adaptive-size.enabled"),
    "vectorized": ("vectorization-enabled", "vectorization.enabled", "read.parquet.vectorization.enabled"),
    "aggregates": ("aggregate-push-down-enabled", "aggregate-push-down.enabled", None),
    "locality": ("locality", "locality.enabled", None),
}


def scan_options(
    name: str,
    metadata: TableMetadata,
    settings: SessionSettings | None = None,
    options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Only what is set: sizes as numbers, switches as booleans."""
    given = {key.lower(): value for key, value in (options or {}).items()}
    session = (settings or SessionSettings()).values

    def first(option: str | None, setting: str | None, of_table: str | None) -> tuple[str, str] | None:
        for source, key in ((given, option), (session, setting), (metadata.properties, of_table)):
            if key is not None and key in source:
                return key, source[key]
        return None

    found: dict[str, Any] = {}
    for key, sources in SIZES.items():
        if (told := first(*sources)) is not None:
            found[key] = _positive(name, *told)
    for key, sources in SWITCHES.items():
        if (told := first(*sources)) is not None:
            if told[1].lower() not in FLAGS:
                raise ConfigError(f"{name}: {told[0]} is true or false, not {told[1]}")
            found[key] = told[1].lower() == "true"
    return found


def _positive(name: str, key: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        raise ConfigError(f"{name}: {key} is a number, not {value!r}") from None
    if number < 1:
        raise ConfigError(f"{name}: {key} must be positive, found {value}")
    return number
