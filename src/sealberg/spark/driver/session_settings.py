"""Settings of a Spark session that Iceberg defines: checked whenever a statement names a table, then obeyed.

    spark.wap.id              a write to a table with write.wap.enabled is staged: no branch moves until somebody
                              publishes the snapshot, with table.manage_snapshots().publish_changes(id)
    spark.wap.branch          such a table is read from and written to this branch; the first write makes the branch
    spark.sql.iceberg.NAME    the names of Iceberg's SparkSQLProperties; an unknown name is an error

An option of a read or a write comes before a setting of the session, and the setting before a property of the table.
Settings that only concern Iceberg's own connector are accepted: both connectors may work in one session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError
from sealberg.properties.spark_names import SESSION_SETTINGS
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table.metadata import TableMetadata

WAP_ENABLED: Final = "write.wap.enabled"
WAP_ID: Final = "spark.wap.id"
WAP_BRANCH: Final = "spark.wap.branch"
PREFIX: Final = "spark.sql.iceberg."
SUMMARY: Final = PREFIX + "snapshot-property."
FLAGS: Final = ("true", "false")
ALLOWED: Final[dict[str, tuple[str, ...]]] = {
    "distribution-mode": ("none", "hash", "range"),
    "data-planning-mode": ("auto", "local", "distributed"),
    "delete-planning-mode": ("auto", "local", "distributed"),
    "compression-strategy": ("speed", "compression"),
    **dict.fromkeys(
        (
            "vectorization.enabled",
            "check-nullability",
            "check-ordering",
            "planning.preserve-data-grouping",
            "aggregate-push-down.enabled",
            "locality.enabled",
            "merge-schema",
            "report-column-stats",
            "identifier-fields-rely",
            "read.adaptive-split-size.enabled",
            "async-micro-batch-planning-enabled",
            "shred-variants",
            "executor-cache.enabled",
            "executor-cache.delete-files.enabled",
            "executor-cache.locality.enabled",
        ),
        FLAGS,
    ),
}
POSITIVE: Final = ("read.split-size", "read.adaptive-split-size.parallelism", "advisory-partition-size")


@dataclass(frozen=True)
class SessionSettings:
    """The settings of one session, checked; `values` are those of spark.sql.iceberg.*, without the prefix."""

    wap_id: str | None = None
    wap_branch: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SessionSettings:
        summary = {name[len(SUMMARY) :]: value for name, value in given.items() if name.startswith(SUMMARY)}
        rest = {name: value for name, value in given.items() if not name.startswith(SUMMARY)}
        known = [setting.name for setting in SESSION_SETTINGS]
        if unknown := sorted(name for name in rest if name not in known):
            raise ConfigError(f"unknown setting of the session {', '.join(unknown)}; known are {', '.join(known)}")
        values = {name[len(PREFIX) :]: value for name, value in rest.items() if name.startswith(PREFIX)}
        for name, value in values.items():
            _check(name, value)
        return cls(rest.get(WAP_ID), rest.get(WAP_BRANCH), values, summary)

    def flag(self, name: str) -> bool | None:
        return None if name not in self.values else self.values[name].lower() == "true"

    def staged_id(self, metadata: TableMetadata) -> str | None:
        """The WAP id under which a write to this table is staged."""
        return self.wap_id if self._audits(metadata) else None

    def write_branch(self, metadata: TableMetadata) -> str | None:
        """The branch of the session for a write to this table; it may have to be made."""
        return self.wap_branch if self._audits(metadata) else None

    def read_branch(self, metadata: TableMetadata) -> str | None:
        """The branch of the session for a read of this table, if the branch exists."""
        branch = self.write_branch(metadata)
        return branch if branch in metadata.refs else None

    def _audits(self, metadata: TableMetadata) -> bool:
        if not value_of(metadata.properties, WAP_ENABLED, False):
            return False
        if self.wap_id is not None and self.wap_branch is not None:
            raise ConfigError(
                f"Cannot set both WAP ID and branch, but got ID [{self.wap_id}] and branch [{self.wap_branch}]: "
                f"unset {WAP_ID} or {WAP_BRANCH}"
            )
        return True


def _check(name: str, value: str) -> None:
    allowed = ALLOWED.get(name)
    if allowed is not None and value.lower() not in allowed:
        raise ConfigError(f"{PREFIX}{name} is {' or '.join(allowed)}, not {value}")
    if name in POSITIVE and not (value.isdigit() and int(value) > 0):
        raise ConfigError(f"{PREFIX}{name} is a positive number, not {value}")
