"""Tables as Spark sees them: created, described, altered, found at a point in time.

    hr.salaries                    the newest snapshot
    hr.salaries VERSION AS OF ..   a snapshot id, a branch or a tag       TIMESTAMP AS OF: the snapshot of that time
    hr.salaries.branch_test        the newest snapshot of a branch, to read and to write; tag_... to read
    hr.salaries.snapshot_id_123    that snapshot, to read; at_timestamp_...: the snapshot of that time, in milliseconds
    hr.salaries.snapshots          a metadata table

A description carries a handle: the table, the snapshot and the schema that a query has seen. Everything that the
query asks later names it, so that a table that changes meanwhile is still read as it was, and nothing is kept here.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.partitioning import PartitionField, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.transforms import VoidTransform
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType, StructType, UUIDType

from sealberg.errors import ConfigError, ConflictError, UnsupportedError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import PLAINTEXT
from sealberg.properties import check_table_properties
from sealberg.spark.driver import metadata_tables as rows_of
from sealberg.spark.driver.alter import alter
from sealberg.spark.driver.partitions import UNITS, partition_spec
from sealberg.spark.driver.recent_tables import RecentTables
from sealberg.spark.driver.scan_options import scan_options
from sealberg.spark.driver.session_settings import SessionSettings
from sealberg.spark.types import iceberg_schema, read_schema, spark_schema
from sealberg.table.catalog_table import CatalogTable
from sealberg.table.transaction import EncryptedTransaction
from sealberg.write import row_changes

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

BRANCH, TAG, SNAPSHOT, TIME = "branch_", "tag_", "snapshot_id_", "at_timestamp_"
PROVIDERS: Final = ("iceberg", "sealberg")
FILE_FORMATS: Final = ("parquet", "avro")
ACCEPT_ANY_SCHEMA: Final = "write.spark.accept-any-schema"
AUTO_EVOLUTION: Final = "write.spark.auto-schema-evolution.enabled"
FORMAT: Final = TableProperties.WRITE_FILE_FORMAT
NOT_KEPT: Final = ("provider", "owner", "location", "external", "is_managed_location", "table_type")


@dataclass(frozen=True)
class Tables:
    """The tables of one catalog."""

    catalog: Catalog
    staged: dict[str, EncryptedTransaction] = field(default_factory=dict)
    filled: set[str] = field(default_factory=set)  # those of them that have their rows
    lock: threading.Lock = field(default_factory=threading.Lock)
    recent: RecentTables = field(default_factory=RecentTables)

    # -- find -----------------------------------------------------------------------------------

    def load(self, arguments: dict[str, Any]) -> dict[str, Any]:
        SessionSettings.of(arguments)  # an unknown setting is an error as soon as a statement names a table
        name = tuple(arguments["table"])
        if len(name) < 2:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}")
        try:
            table = self.kept(name)
        except NoSuchTableError:
            if len(name) > 2 and _is_of_a_table(name[-1]) and self.catalog.table_exists(name[:-1]):
                return _part(self.kept(name[:-1]), name[-1], arguments)
            raise
        past = _past(table, arguments)
        if past is not None and _is_branch(table, arguments.get("version")):
            return describe(table, past)  # as in Java, with the columns of today
        return describe(table, past or table.metadata.current_snapshot(), past=past is not None)

    def kept(self, name: tuple[str, ...]) -> Table:
        table = self.catalog.load_table(name)
        self.recent.keep(table)
        return table

    def found(self, handle: dict[str, Any]) -> Table:
        """The table as it is now."""
        table = self.catalog.load_table(tuple(handle["table"]))
        if str(table.metadata.table_uuid) != handle["uuid"]:
            name = ".".join(handle["table"])
            raise ConflictError(f"table {name} was dropped and made anew since this query named it")
        return table

    def named(self, handle: dict[str, Any]) -> Table:
        """The table as the query has named it; or as it is now, where that was long ago."""
        return self.recent.get(handle) or self.found(handle)

    def storage(self, handle: dict[str, Any]) -> FileIO:
        """Where its files are, whatever has become of it meanwhile."""
        if "staged" in handle:  # the catalog does not know the table yet
            return self.staged[handle["staged"]].io
        return (self.recent.get(handle) or self.catalog.load_table(tuple(handle["table"]))).io

    # -- change ---------------------------------------------------------------------------------

    def create(self, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = _Wanted.of(arguments)
        self.catalog.create_table(
            wanted.name, wanted.schema, wanted.location, wanted.spec, properties=wanted.properties
        )
        return self.load({"table": arguments["table"]})

    def alter(self, arguments: dict[str, Any]) -> dict[str, Any]:
        alter(self.catalog.load_table(tuple(arguments["table"])), arguments["changes"])
        return self.load({"table": arguments["table"]})

    def drop(self, arguments: dict[str, Any]) -> bool:
        name = tuple(arguments["table"])
        try:
            if arguments["purge"]:
                self.catalog.purge_table(name)
            else:
                self.catalog.drop_table(name)
        except NoSuchTableError:
            return False
        return True

    def rename(self, arguments: dict[str, Any]) -> None:
        self.catalog.rename_table(tuple(arguments["table"]), tuple(arguments["to"]))

    # -- create together with rows ----------------------------------------------------------------

    def stage(self, arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = _Wanted.of(arguments)
        exists = self.catalog.table_exists(wanted.name)
        if arguments["how"] == "create" and exists:
            raise TableAlreadyExistsError(f"Table {'.'.join(wanted.name)} already exists")
        if arguments["how"] == "replace" and not exists:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(wanted.name)}")
        change = _replacement(self.catalog.load_table(wanted.name), wanted) if exists else self._creation(wanted)
        key = uuid.uuid4().hex
        with self.lock:
            self.staged[key] = change
        described = describe_metadata(wanted.name, change.table_metadata, None)
        described["handle"]["staged"] = key
        return described

    def _creation(self, wanted: _Wanted) -> EncryptedTransaction:
        change = self.catalog.create_table_transaction(
            wanted.name, wanted.schema, wanted.location, wanted.spec, properties=wanted.properties
        )
        if not isinstance(change, EncryptedTransaction):
            raise UnsupportedError("tables of format version 1 and 2 are not written from Spark")
        return change

    def commit_staged(self, arguments: dict[str, Any]) -> None:
        change, filled = self._unstaged(arguments)
        assert change is not None, "a table is committed once"
        if not filled and change.table_metadata.snapshot_by_name(MAIN_BRANCH) is not None:
            # REPLACE TABLE without AS SELECT: the columns are new, so no old row may stay.
            gone = row_changes.deletion(change.context, AlwaysTrue(), branch=MAIN_BRANCH, in_place=False)
            change.commit_changes(replace(gone, conflict_filter=AlwaysTrue()))
        change.commit_transaction()

    def abort_staged(self, arguments: dict[str, Any]) -> None:
        change, _ = self._unstaged(arguments)
        if change is not None:  # else its commit has failed, and has tidied up as far as it may
            change.end(forget=True)

    def _unstaged(self, arguments: dict[str, Any]) -> tuple[EncryptedTransaction | None, bool]:
        key = arguments["handle"]["staged"]
        with self.lock:
            filled = key in self.filled
            self.filled.discard(key)
            return self.staged.pop(key, None), filled


# -- what is wanted ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Wanted:
    """CREATE TABLE, understood."""

    name: tuple[str, ...]
    schema: Schema
    spec: PartitionSpec
    location: str | None
    properties: dict[str, str]

    @classmethod
    def of(cls, arguments: dict[str, Any]) -> _Wanted:
        given = arguments["properties"]
        provider = given.get("provider")
        if provider is not None and provider.lower() not in (*PROVIDERS, *FILE_FORMATS):
            raise ConfigError(
                f"USING {provider}: the tables of this catalog are Iceberg tables, with {' or '.join(FILE_FORMATS)} "
                "files; leave USING out"
            )
        # As in Iceberg Java, USING parquet names the format of the files. Spark adds it to saveAsTable by itself.
        form = {FORMAT: provider.lower()} if provider is not None and provider.lower() in FILE_FORMATS else {}
        check_table_properties(".".join(arguments["table"]), (name for name in given if "option." not in name))
        schema = iceberg_schema(arguments["schema"])
        if not all(arguments["table"]):
            raise ConfigError(f"a table needs a name, found {'.'.join(arguments['table'])!r}")
        return cls(
            tuple(arguments["table"]),
            schema,
            partition_spec(arguments["partitions"], schema),
            given.get("location"),
            {
                # Version 3 for all tables: Spark writes no others.
                "format-version": "3",
                **form,
                **{name: value for name, value in given.items() if name not in NOT_KEPT and "option." not in name},
            },
        )


def _replacement(table: Table, wanted: _Wanted) -> EncryptedTransaction:
    """Everything new but the table itself: its history, its key id and its properties stay."""
    if not isinstance(table, CatalogTable):
        raise UnsupportedError("tables of format version 1 and 2 are not written from Spark")
    metadata = table.metadata
    given = {name: value for name, value in wanted.properties.items() if name != "format-version"}
    if given.get(KEY_ID_PROPERTY, metadata.properties.get(KEY_ID_PROPERTY)) != metadata.properties.get(KEY_ID_PROPERTY):
        sealed = KEY_ID_PROPERTY in metadata.properties
        raise ConfigError("Cannot modify key ID of an encrypted table" if sealed else PLAINTEXT)
    numbers = count(metadata.last_column_id + 1)
    schema = assign_fresh_schema_ids(wanted.schema, lambda: next(numbers))
    spec = assign_fresh_partition_spec_ids(wanted.spec, wanted.schema, schema)
    last = metadata.last_partition_id or 999
    fields = [
        PartitionField(one.source_id, last + at, one.transform, one.name) for at, one in enumerate(spec.fields, 1)
    ]
    spec_id = 1 + max(one.spec_id for one in metadata.partition_specs)
    schema_id = 1 + max(one.schema_id for one in metadata.schemas)
    change = table.transaction()
    change.apply(
        (
            AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),
            SetDefaultSortOrderUpdate.model_validate({"sort-order-id": UNSORTED_SORT_ORDER_ID}),
            AddSchemaUpdate(schema=Schema(*schema.fields, schema_id=schema_id)),
            SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id}),
            AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=spec_id)),
            SetDefaultSpecUpdate.model_validate({"spec-id": spec_id}),
            *((SetPropertiesUpdate(updates=given),) if given else ()),
        )
    )
    return change


# -- parts of tables, and points in time ------------------------------------------------------------


def _is_of_a_table(name: str) -> bool:
    return name in rows_of.KINDS or name.startswith((BRANCH, TAG)) or _moment(name) is not None


def _moment(name: str) -> tuple[str, int] | None:
    """The number in snapshot_id_123 or at_timestamp_123."""
    prefix = next((one for one in (SNAPSHOT, TIME) if name.startswith(one)), None)
    number = name.removeprefix(prefix) if prefix else ""
    return (prefix, int(number)) if prefix and number.isdigit() else None


def _is_branch(table: Table, version: str | None) -> bool:
    ref = table.metadata.refs.get(version) if version is not None else None
    return ref is not None and ref.snapshot_ref_type == BRANCH.rstrip("_")


def _part(table: Table, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A metadata table, a branch or a tag; named behind the table, as in Java."""
    past = _past(table, arguments)
    if name in rows_of.KINDS:
        return rows_of.described(table, name, past)
    if past is not None:
        full = ".".join((*table.name(), name))
        raise ConfigError(f"{full} is at a snapshot already: leave out VERSION AS OF and TIMESTAMP AS OF")
    if moment := _moment(name):
        prefix, number = moment
        snapshot = _by_version(table, str(number)) if prefix == SNAPSHOT else _by_time(table, number)
        return describe(table, snapshot, past=True)
    prefix = BRANCH if name.startswith(BRANCH) else TAG
    ref = table.metadata.refs.get(name.removeprefix(prefix))
    if ref is None or ref.snapshot_ref_type != prefix.rstrip("_"):
        raise ConfigError(
            f"{'.'.join(table.name())} has no {prefix.rstrip('_')} {name.removeprefix(prefix)}; "
            "table.manage_snapshots() in Python makes one"
        )
    described = describe(table, table.metadata.snapshot_by_id(ref.snapshot_id), past=prefix == TAG)
    described["name"] += f".{name}"
    if prefix == BRANCH:
        described["handle"]["branch"] = name.removeprefix(BRANCH)
    return described


def _past(table: Table, arguments: dict[str, Any]) -> Snapshot | None:
    """The snapshot of VERSION AS OF or TIMESTAMP AS OF."""
    if "version" in arguments:
        return _by_version(table, arguments["version"])
    return _by_time(table, arguments["timestamp"] // 1000) if "timestamp" in arguments else None


def _by_version(table: Table, version: str) -> Snapshot:
    ref = table.metadata.refs.get(version)
    if ref is None and not version.lstrip("-").isdigit():
        raise ConfigError(f"{'.'.join(table.name())} has no branch or tag {version}")
    snapshot = table.metadata.snapshot_by_id(ref.snapshot_id if ref else int(version))
    if snapshot is None:
        raise ConfigError(f"{'.'.join(table.name())} has no snapshot {version}")
    return snapshot


def _by_time(table: Table, timestamp_ms: int) -> Snapshot:
    snapshot = table.snapshot_as_of_timestamp(timestamp_ms)
    if snapshot is None:
        raise ConfigError(f"{'.'.join(table.name())} has no snapshot as old as that")
    return snapshot


# -- descriptions -----------------------------------------------------------------------------------


def describe(table: Table, snapshot: Snapshot | None, *, past: bool = False) -> dict[str, Any]:
    """All that Java needs to know of a table at a snapshot."""
    described = describe_metadata(table.name(), table.metadata, snapshot, past=past)
    described["handle"]["metadata"] = table.metadata_location
    described["sealed"] = isinstance(table, CatalogTable) and table.encryption is not None
    return described


def describe_metadata(
    name: tuple[str, ...], metadata: TableMetadata, snapshot: Snapshot | None, *, past: bool = False
) -> dict[str, Any]:
    schema = metadata.schema()
    if past and snapshot is not None and snapshot.schema_id is not None:
        schema = metadata.schema_by_id(snapshot.schema_id) or schema
    summary = snapshot.summary if snapshot is not None else None
    return {
        "table": list(name),
        "name": ".".join(name),
        "handle": {
            "table": list(name),
            "uuid": str(metadata.table_uuid),
            "snapshot": snapshot.snapshot_id if snapshot else None,
            "schema": schema.schema_id,
            "past": past,
        },
        "schema": spark_schema(schema),
        "read-schema": read_schema(schema),
        "partitions": [_partition(one, schema) for one in metadata.spec().fields if _is_shown(one, schema)],
        "properties": {
            **metadata.properties,
            "format-version": str(metadata.format_version),
            "provider": PROVIDERS[0],
            "location": metadata.location,
        },
        "rows": int((summary["total-records"] if summary else None) or 0),
        "bytes": int((summary["total-files-size"] if summary else None) or 0),
        "sealed": KEY_ID_PROPERTY in metadata.properties,
        "safe": safe_names(metadata, schema),
        "scan": scan_options(".".join(name), metadata),
        "accepts-any-schema": metadata.properties.get(ACCEPT_ANY_SCHEMA, "false").lower() == "true",
        "evolves": metadata.properties.get(AUTO_EVOLUTION, "true").lower() == "true",
        "rewrites": {one: _rewrites(metadata, one) for one in ("delete", "update", "merge")},
    }


def _rewrites(metadata: TableMetadata, command: str) -> bool:
    """Does this command write files anew? Deletion vectors are for encrypted tables that ask for them."""
    mode = metadata.properties.get(f"write.{command}.mode", "copy-on-write").lower()
    return mode != row_changes.MERGE_ON_READ or KEY_ID_PROPERTY not in metadata.properties


def _is_shown(one: PartitionField, schema: Schema) -> bool:
    return not isinstance(one.transform, VoidTransform) and one.source_id in schema.field_ids


def _partition(one: PartitionField, schema: Schema) -> dict[str, Any]:
    return {**transform(one), "column": quoted(schema, one.source_id)}


def quoted(schema: Schema, field_id: int) -> str:
    """A column as Spark parses it, whatever characters are in its name."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in column_path(schema, field_id))


def column_path(schema: Schema, field_id: int) -> list[str]:
    """The names from the top of the schema down to a column inside structs; a name may hold a dot."""
    pending: list[tuple[list[str], NestedField]] = [([], one) for one in schema.fields]
    for above, one in pending:
        path = [*above, one.name]
        if one.field_id == field_id:
            return path
        if isinstance(one.field_type, StructType):
            pending += [(path, inner) for inner in one.field_type.fields]
    raise ConfigError(f"no column with the id {field_id} in {schema}")


def transform(one: Any) -> dict[str, Any]:
    """A transform of a partition or sort field, in the words of the Java side."""
    kind, _, width = str(one.transform).rstrip("]").partition("[")
    return {"transform": UNITS.get(kind, kind), "width": int(width or 0)}


def safe_names(metadata: TableMetadata, schema: Schema) -> list[str]:
    """The columns whose name never meant another column, nor another type: Parquet's own filters go by name.

    Without those that can be NaN, which writers leave out of statistics and Spark counts as greater than all, and
    without uuids, which are bytes there and text in Spark.
    """
    meanings: dict[str, set[tuple[int, str]]] = {}
    for each in metadata.schemas:
        for field_id in each.field_ids:
            name = (each.find_column_name(field_id) or "").lower()
            meanings.setdefault(name, set()).add((field_id, str(each.find_type(field_id))))
    safe = []
    for field_id in schema.field_ids:
        name, kind = schema.find_column_name(field_id) or "", schema.find_type(field_id)
        plain = isinstance(kind, PrimitiveType) and not isinstance(kind, FloatType | DoubleType | UUIDType)
        if plain and len(meanings.get(name.lower(), ())) == 1:
            safe.append(name)
    return safe
