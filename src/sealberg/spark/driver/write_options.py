"""Options of a write: Iceberg's names, obeyed; every other name is refused with a list of the known ones.

    write-format  target-file-size-bytes  compression-codec  compression-level  distribution-mode
                                         the table's property of that meaning, for this write only
    merge-schema  check-nullability  check-ordering      of tables that accept any schema, in `any_schema`
    branch                               where the snapshot goes
    snapshot-property.NAME               into the summary of the snapshot
    isolation-level                      serializable or snapshot, for INSERT OVERWRITE
    validate-from-snapshot-id            the snapshot since which nothing may conflict with INSERT OVERWRITE; with
                                         isolation-level alone, nothing in the whole history may

    df.writeTo("prod.hr.pay").option("branch", "audit").append()      INSERT INTO prod.hr.pay WITH (...) VALUES ...

The session has settings of the same meaning, which an option outranks; see `session_settings`.
A property of the table, such as encryption.key-id, is not an option of a write. It is refused here, because a table
that a DataFrame makes would not get it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.table import TableProperties
from pyiceberg.table.refs import MAIN_BRANCH

from sealberg.errors import ConfigError
from sealberg.properties.known import REFUSED, find
from sealberg.properties.spark_names import WRITE_OPTIONS
from sealberg.spark.driver.session_settings import SessionSettings
from sealberg.table.cherrypick import STAGED_WAP_ID
from sealberg.write.row_changes import SERIALIZABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.spark.protocol.handles import TableHandle
    from sealberg.spark.protocol.writes import WriteRequest
    from sealberg.write.snapshot_builder import FileChanges

BRANCH: Final = "branch"
ISOLATION: Final = "isolation-level"
VALIDATE_FROM: Final = "validate-from-snapshot-id"
SUMMARY: Final = "snapshot-property."
FORMAT: Final = "write-format"
DISTRIBUTION: Final = "distribution-mode"
SIZE: Final = "target-file-size-bytes"
CODEC, LEVEL = "compression-codec", "compression-level"
PATH: Final = "path"
ADVISORY: Final = "advisory-partition-size"
USE_TABLE_ORDER: Final = "use-table-distribution-and-ordering"
OVERWRITE_MODE: Final = "overwrite-mode"
MERGE_SCHEMA: Final = ("merge-schema", "mergeschema")
CHECK_NULLABILITY, CHECK_ORDERING = "check-nullability", "check-ordering"
FANOUT: Final = "fanout-enabled"
FLAGS: Final = (FANOUT, USE_TABLE_ORDER, *MERGE_SCHEMA, CHECK_NULLABILITY, CHECK_ORDERING)
BOTH: Final = (CODEC, LEVEL, DISTRIBUTION, ADVISORY, MERGE_SCHEMA[0], CHECK_NULLABILITY, CHECK_ORDERING)  # of a session
SPARKS_OWN: Final = ("checkpointlocation", "queryname")  # of a stream, which Spark itself obeys
LEVELS: Final = (SERIALIZABLE, "snapshot")
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
    wap_id: str | None = None
    merge_schema: bool = False
    check_nullability: bool = True
    check_ordering: bool = True
    in_table_order: bool = True
    overwrites_partitions: bool = False

    @classmethod
    def of(cls, write: WriteRequest, metadata: V3TableMetadata) -> WriteOptions:
        return cls._checked(write.handle, write.options, write.settings, metadata)

    @classmethod
    def of_statement(cls, handle: TableHandle, settings: Mapping[str, str], metadata: V3TableMetadata) -> WriteOptions:
        """Those of a statement that takes no options."""
        return cls._checked(handle, {}, settings, metadata)

    @classmethod
    def _checked(
        cls, handle: TableHandle, given: Mapping[str, str], session: Mapping[str, str], metadata: V3TableMetadata
    ) -> WriteOptions:
        name = handle.name
        options = {key.lower(): value for key, value in given.items() if key.lower() not in SPARKS_OWN}
        check_names(name, options)
        _check_path(name, options, handle, metadata)
        settings = SessionSettings.of(session)
        isolation = options.get(ISOLATION)
        if isolation is not None and isolation.lower() not in LEVELS:
            raise ConfigError(f"{name}: {ISOLATION} is {' or '.join(LEVELS)}, not {isolation}")
        from_session = {key: settings.values[key] for key in BOTH if key in settings.values}
        flags = {key: value.lower() == "true" for key, value in {**from_session, **options}.items() if key in FLAGS}
        mode = options.get(OVERWRITE_MODE, "static").lower()
        if mode not in ("static", "dynamic"):
            raise ConfigError(f"{name}: {OVERWRITE_MODE} is static or dynamic, not {mode}")
        own = {key[len(SUMMARY) :]: value for key, value in given.items() if key.lower().startswith(SUMMARY)}
        return cls(
            _properties(name, {**from_session, **options}, metadata),
            {**settings.summary, **own},  # the names of summary properties keep their case
            _branch(name, options, handle, metadata, settings),
            isolation.lower() if isolation is not None else None,
            _snapshot(name, options, metadata),
            settings.staged_id(metadata),
            merge_schema=next(
                (flags[key] for key in MERGE_SCHEMA if key in options), flags.get(MERGE_SCHEMA[0], False)
            ),
            check_nullability=flags.get(CHECK_NULLABILITY, True),
            check_ordering=flags.get(CHECK_ORDERING, True),
            in_table_order=flags.get(USE_TABLE_ORDER, True),
            overwrites_partitions=mode == "dynamic",
        )

    def finished(self, changes: FileChanges) -> FileChanges:
        """The changes with what the snapshot's summary says, and staged where spark.wap.id asks for it."""
        properties = {**changes.properties, **self.summary}
        changes = replace(changes, first_of_branch=True)
        if self.wap_id is None:
            return replace(changes, properties=properties)
        return replace(changes, properties={**properties, STAGED_WAP_ID: self.wap_id}, stage_only=True)

    def on(self, metadata: V3TableMetadata) -> V3TableMetadata:
        """The metadata with the properties of this write."""
        return metadata.model_copy(update={"properties": {**metadata.properties, **self.properties}})


def check_names(name: str, options: Mapping[str, str]) -> None:
    found = {key: find(WRITE_OPTIONS, key) for key in options}
    if unknown := sorted(key for key, known in found.items() if known is None):
        names = [f"{option.name}NAME" if option.name.endswith(".") else option.name for option in WRITE_OPTIONS]
        raise ConfigError(
            f"{name}: unknown write option {', '.join(unknown)}; known are {', '.join(names)}. "
            "Properties of a new table go into TBLPROPERTIES or writeTo(...).tableProperty(...)"
        )
    for key, known in found.items():
        if known is not None and known.fate == REFUSED:
            raise ConfigError(f"{name}: the write option {key} is not supported: {known.reason}")
        if key in FLAGS and options[key].lower() not in ("true", "false"):
            raise ConfigError(f"{name}: {key} is true or false, not {options[key]}")


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
    if ADVISORY in options:
        if _number(name, ADVISORY, options[ADVISORY]) < 1:
            raise ConfigError(f"{name}: {ADVISORY} must be positive, found {options[ADVISORY]}")
        found["write.spark.advisory-partition-size-bytes"] = options[ADVISORY]
    if FANOUT in options:
        found["write.spark.fanout.enabled"] = options[FANOUT]
    if DISTRIBUTION in options:
        found["write.distribution-mode"] = options[DISTRIBUTION]
        found |= {f"write.{command}.distribution-mode": options[DISTRIBUTION] for command in COMMANDS}
    return found


def _check_path(name: str, options: Mapping[str, str], handle: TableHandle, metadata: V3TableMetadata) -> None:
    """saveAsTable and toTable make a table at the option path, and pass it on to the first write."""
    path = options.get(PATH)
    if path is None or handle.staged is not None:
        return
    if path.rstrip("/").removeprefix("file:").lstrip("/") != metadata.location.removeprefix("file:").strip("/"):
        raise ConfigError(
            f"{name} is at {metadata.location}, and the write option {PATH} says {path}: a write cannot move a table. "
            f"Leave {PATH} out"
        )


def _branch(
    name: str,
    options: Mapping[str, str],
    handle: TableHandle,
    metadata: V3TableMetadata,
    settings: SessionSettings,
) -> str | None:
    branch = options.get(BRANCH)
    if branch is None:
        return None if handle.branch is not None else settings.write_branch(metadata)
    if handle.branch is not None and handle.branch != branch:
        raise ConfigError(f"{name}: the statement names the branch {handle.branch}, and the option {branch}")
    ref = metadata.refs.get(branch)
    if branch != MAIN_BRANCH and (ref is None or ref.snapshot_ref_type != "branch"):
        raise ConfigError(
            f"{name} has no branch {branch}; table.manage_snapshots() in Python makes one, and "
            "ALTER TABLE ... CREATE BRANCH in SQL"
        )
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
