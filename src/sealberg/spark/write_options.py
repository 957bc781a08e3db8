"""Options of a write: Iceberg's names, obeyed; every other name is refused with a list of the known ones.

    write-format  target-file-size-bytes  compression-codec  compression-level  distribution-mode
                                         the table's property of that meaning, for this write only
    branch                               where the snapshot goes
    snapshot-property.NAME               into the summary of the snapshot
    isolation-level                      serializable or snapshot, for INSERT OVERWRITE
    validate-from-snapshot-id            the snapshot since which nothing may conflict with INSERT OVERWRITE

    df.writeTo("prod.hr.pay").option("branch", "audit").append()      INSERT INTO prod.hr.pay WITH (...) VALUES ...

A property of the table, such as encryption.key-id, is not an option of a write. It is refused here, because a table
that a DataFrame makes would not get it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.table import TableProperties

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.table.metadata import V3TableMetadata

BRANCH: Final = "branch"
ISOLATION: Final = "isolation-level"
VALIDATE_FROM: Final = "validate-from-snapshot-id"
SUMMARY: Final = "snapshot-property."
FORMAT: Final = "write-format"
DISTRIBUTION: Final = "distribution-mode"
SIZE: Final = "target-file-size-bytes"
CODEC, LEVEL = "compression-codec", "compression-level"
KNOWN: Final = (FORMAT, SIZE, CODEC, LEVEL, DISTRIBUTION, BRANCH, ISOLATION, VALIDATE_FROM)
SPARKS_OWN: Final = ("checkpointlocation", "queryname", "path")  # of a stream, which Spark itself obeys
LEVELS: Final = ("serializable", "snapshot")
COMMANDS: Final = ("delete", "update", "merge")


@dataclass(frozen=True)
class WriteOptions:
    """The options of one write, checked.

    Args:
        properties: of the table, in effect for this write only.
        summary: properties of the snapshot.
        isolation: None where the option was not given.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    branch: str | None = None
    isolation: str | None = None
    validate_from: int | None = None

    @classmethod
    def of(cls, arguments: dict[str, Any], metadata: V3TableMetadata) -> WriteOptions:
        given: dict[str, str] = arguments.get("options", {})
        name = ".".join(arguments["handle"]["table"])
        options = {key.lower(): value for key, value in given.items() if key.lower() not in SPARKS_OWN}
        unknown = sorted(key for key in options if key not in KNOWN and not key.startswith(SUMMARY))
        if unknown:
            raise ConfigError(
                f"{name}: unknown write option {', '.join(unknown)}; known are {', '.join(KNOWN)} and {SUMMARY}NAME. "
                "Properties of a new table go into TBLPROPERTIES or writeTo(...).tableProperty(...)"
            )
        isolation = options.get(ISOLATION)
        if isolation is not None and isolation.lower() not in LEVELS:
            raise ConfigError(f"{name}: {ISOLATION} is {' or '.join(LEVELS)}, not {isolation}")
        return cls(
            _properties(name, options, metadata),
            # The names of summary properties keep their case.
            {key[len(SUMMARY) :]: value for key, value in given.items() if key.lower().startswith(SUMMARY)},
            _branch(name, options, arguments["handle"], metadata),
            isolation.lower() if isolation is not None else None,
            _snapshot(name, options, metadata),
        )

    def on(self, metadata: V3TableMetadata) -> V3TableMetadata:
        """The metadata with the properties of this write."""
        return metadata.model_copy(update={"properties": {**metadata.properties, **self.properties}})


def _properties(name: str, options: Mapping[str, str], metadata: V3TableMetadata) -> dict[str, str]:
    form = options.get(FORMAT, metadata.properties.get(TableProperties.WRITE_FILE_FORMAT, "parquet")).lower()
    found = {TableProperties.WRITE_FILE_FORMAT: form} if FORMAT in options else {}
    if SIZE in options:
        if _number(name, SIZE, options[SIZE]) < 1:
            raise ConfigError(f"{name}: {SIZE} must be positive, found {options[SIZE]}")
        found[TableProperties.WRITE_TARGET_FILE_SIZE_BYTES] = options[SIZE]
    for option in (CODEC, LEVEL):
        if option in options:
            found[f"write.{form}.{option}"] = options[option]
    if LEVEL in options:
        _number(name, LEVEL, options[LEVEL])
    if DISTRIBUTION in options:
        found["write.distribution-mode"] = options[DISTRIBUTION]
        found |= {f"write.{command}.distribution-mode": options[DISTRIBUTION] for command in COMMANDS}
    return found


def _branch(name: str, options: Mapping[str, str], handle: dict[str, Any], metadata: V3TableMetadata) -> str | None:
    branch = options.get(BRANCH)
    if branch is None:
        return None
    if BRANCH in handle and handle[BRANCH] != branch:
        raise ConfigError(f"{name}: the statement names the branch {handle[BRANCH]}, and the option {branch}")
    ref = metadata.refs.get(branch)
    if branch != "main" and (ref is None or ref.snapshot_ref_type != "branch"):
        raise ConfigError(f"{name} has no branch {branch}; table.manage_snapshots() in Python makes one")
    return branch


def _snapshot(name: str, options: Mapping[str, str], metadata: V3TableMetadata) -> int | None:
    if VALIDATE_FROM not in options:
        return None
    snapshot_id = _number(name, VALIDATE_FROM, options[VALIDATE_FROM])
    if metadata.snapshot_by_id(snapshot_id) is None:
        raise ConfigError(f"{name} has no snapshot {snapshot_id} to validate from")
    return snapshot_id


def _number(name: str, option: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigError(f"{name}: {option} is a number, not {value!r}") from None
