"""How a scan is planned and split into tasks, and whether it reads in batches and takes aggregates out of metadata.

    read option                   setting of the session, spark.sql.iceberg.*     property of the table
    split-size                    read.split-size                                 read.split.target-size
    file-open-cost                                                                read.split.open-file-cost
                                  read.adaptive-split-size.enabled                read.split.adaptive-size.enabled
                                  read.adaptive-split-size.parallelism
    vectorization-enabled         vectorization.enabled                           read.parquet.vectorization.enabled
    aggregate-push-down-enabled   aggregate-push-down.enabled
    locality                      locality.enabled
                                  report-column-stats
                                  data-planning-mode                              read.data-planning-mode
                                  delete-planning-mode                            read.delete-planning-mode

The leftmost name of a line that is set counts. Where none is set, Spark's own settings of files count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.properties.values import FLAG, PLANNING, SIZE
from sealberg.spark.driver.session_settings import SessionSettings
from sealberg.spark.protocol.tables import ScanOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

SIZES: Final = {
    "split_size": ("split-size", "read.split-size", "read.split.target-size"),
    "file_open_cost": ("file-open-cost", None, "read.split.open-file-cost"),
    "parallelism": (None, "read.adaptive-split-size.parallelism", None),
}
SWITCHES: Final = {
    "adaptive": (None, "read.adaptive-split-size.enabled", "read.split.adaptive-size.enabled"),
    "vectorized": ("vectorization-enabled", "vectorization.enabled", "read.parquet.vectorization.enabled"),
    "aggregates": ("aggregate-push-down-enabled", "aggregate-push-down.enabled", None),
    "locality": ("locality", "locality.enabled", None),
    "column_statistics": (None, "report-column-stats", None),
}
MODES: Final = {
    "data_planning": (None, "data-planning-mode", "read.data-planning-mode"),
    "delete_planning": (None, "delete-planning-mode", "read.delete-planning-mode"),
}


def scan_options(
    name: str,
    metadata: TableMetadata,
    settings: SessionSettings | None = None,
    options: Mapping[str, str] | None = None,
) -> ScanOptions:
    """The options of a scan, checked."""
    given = {key.lower(): value for key, value in (options or {}).items()}
    session = (settings or SessionSettings()).values

    def first(option: str | None, setting: str | None, of_table: str | None) -> tuple[str, str] | None:
        for source, key in ((given, option), (session, setting), (metadata.properties, of_table)):
            if key is not None and key in source:
                return key, source[key]
        return None

    sizes: dict[str, int] = {}
    for field, sources in SIZES.items():
        if (setting := first(*sources)) is not None:
            sizes[field] = SIZE.of(f"{name}: {setting[0]}", setting[1])
    switches: dict[str, bool] = {}
    for field, sources in SWITCHES.items():
        if (setting := first(*sources)) is not None:
            switches[field] = FLAG.of(f"{name}: {setting[0]}", setting[1])
    modes: dict[str, str] = {}
    for field, sources in MODES.items():
        if (setting := first(*sources)) is not None:
            modes[field] = PLANNING.of(f"{name}: {setting[0]}", setting[1])
    return ScanOptions(**sizes, **switches, **modes)  # type: ignore[arg-type]
