"""The two metadata updates that PyIceberg lacks, with their names in the REST specification.

    {"action": "add-encryption-key", "encryption-key": {...}}
    {"action": "remove-encryption-key", "key-id": "..."}

They are applied like every other update, so a snapshot and its keys are committed together. `remove-snapshots` is
applied as in Java, not as in PyIceberg: a snapshot keeps its parent id when the parent expires, so that a stream can
detect the gap, a snapshot that is already gone is not an error, and partition statistics go with their snapshot.

    applied                          metadata after updates; a thousand removed keys cost as much as one
    making_updates                   the updates that create a whole table
    update_json, requirement_json    the JSON that is sent to a REST catalog
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, PlainSerializer, PlainValidator
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    AssignUUIDUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel

from sealberg.errors import UnsupportedError
from sealberg.keys.keyring import EncryptedKey, Keyring
from sealberg.metadata.schema_json import schema_json, sort_order_json, spec_json
from sealberg.metadata.statistics import statistics_json
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata, snapshot_json
from sealberg.properties.table_names import check_values, is_readable, readable
from sealberg.pyiceberg_private import apply_table_update

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import SnapshotLogEntry
    from pyiceberg.table.update import TableUpdate

    from sealberg.keys.keyring import RingDiff

    KeyMember = EncryptedKey
else:
    KeyMember = Annotated[
        Any,
        PlainValidator(lambda key: key if isinstance(key, EncryptedKey) else EncryptedKey.from_json(key)),
        PlainSerializer(EncryptedKey.to_json),
    ]


PREVIOUS_VERSIONS: Final = "write.metadata.previous-versions-max"


class AddEncryptionKeyUpdate(IcebergBaseModel):
    action: Literal["add-encryption-key"] = Field(default="add-encryption-key")
    encryption_key: KeyMember = Field(alias="encryption-key")


class RemoveEncryptionKeyUpdate(IcebergBaseModel):
    action: Literal["remove-encryption-key"] = Field(default="remove-encryption-key")
    key_id: str = Field(alias="key-id")


def key_updates(diff: RingDiff) -> tuple[TableUpdate, ...]:
    """The updates for a difference between rings. Removals come first, because an existing id cannot be added."""
    removals: Iterable[Any] = (RemoveEncryptionKeyUpdate.model_validate({"key-id": key_id}) for key_id in diff.removed)
    additions: Iterable[Any] = (AddEncryptionKeyUpdate.model_validate({"encryption-key": key}) for key in diff.added)
    return (*removals, *additions)


@dataclass(frozen=True)
class _RemoveKeys:
    """Removals of keys that follow one another, applied at once: each new ring is checked as a whole."""

    updates: tuple[RemoveEncryptionKeyUpdate, ...]


def applied(
    metadata: TableMetadata, updates: tuple[TableUpdate, ...], metadata_location: str | None = None
) -> TableMetadata:
    """The metadata after these updates."""
    grouped: Any = tuple(_grouped(updates))
    after = _properties_after(metadata.properties, updates)
    metadata = _without_copies(metadata)
    if metadata_location is None or is_readable(after, PREVIOUS_VERSIONS):
        return update_table_metadata(metadata, grouped, metadata_location=metadata_location)
    if not is_repair(updates):
        check_values({PREVIOUS_VERSIONS: after[PREVIOUS_VERSIONS]})
    # PyIceberg reads the property to shorten the log, and a commit that repairs properties must not fail over it.
    shown = metadata.model_copy(update={"properties": without(metadata.properties, PREVIOUS_VERSIONS)})
    made = update_table_metadata(shown, grouped, metadata_location=metadata_location)
    return made.model_copy(update={"properties": after})


def _without_copies(metadata: TableMetadata) -> TableMetadata:
    """Without second sort orders of one id, which sealberg once wrote: Java does not load a table that has them."""
    orders = list({order.order_id: order for order in metadata.sort_orders}.values())
    alike = len(orders) == len(metadata.sort_orders)
    return metadata if alike else metadata.model_copy(update={"sort_orders": orders})


def _properties_after(before: Mapping[str, str], updates: Iterable[Any]) -> dict[str, str]:
    after = dict(before)
    for update in updates:
        if isinstance(update, SetPropertiesUpdate):
            check_values(update.updates)
            after |= update.updates
        elif isinstance(update, RemovePropertiesUpdate):
            after = without(after, *update.removals)
    return after


def without(properties: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name not in names}


def is_repair(updates: Iterable[Any]) -> bool:
    """Whether the updates change properties only: such a commit works whatever is in the properties of the table."""
    # A commit may also let go of keys that nothing needs any more.
    kinds = {type(update) for update in updates} - {RemoveEncryptionKeyUpdate, _RemoveKeys}
    return bool(kinds) and kinds <= {SetPropertiesUpdate, RemovePropertiesUpdate}


def usable(properties: Mapping[str, str], updates: Iterable[Any]) -> Mapping[str, str]:
    """The properties that a commit of these updates goes by: a repair does without those that cannot be read."""
    return readable(properties) if is_repair(updates) else properties


def _grouped(updates: Iterable[Any]) -> Iterator[Any]:
    for removals, run in groupby(updates, lambda update: isinstance(update, RemoveEncryptionKeyUpdate)):
        if removals:
            yield _RemoveKeys(tuple(run))
        else:
            yield from run


def added_keys(updates: Iterable[Any]) -> list[EncryptedKey]:
    """The keys that these updates add."""
    return [update.encryption_key for update in updates if isinstance(update, AddEncryptionKeyUpdate)]


def removed_keys(updates: Iterable[Any]) -> set[str]:
    """The ids of the keys that these updates remove."""
    return {update.key_id for update in updates if isinstance(update, RemoveEncryptionKeyUpdate)}


def making_updates(metadata: V3TableMetadata) -> tuple[TableUpdate, ...]:
    """The updates that create a table, as Java sends them; -1 stands for the schema, spec and order added last."""
    return (
        AssignUUIDUpdate(uuid=metadata.table_uuid),
        UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT_VERSION}),
        AddSchemaUpdate.model_validate({"schema": metadata.schema()}),
        SetCurrentSchemaUpdate(),
        AddPartitionSpecUpdate(spec=metadata.spec()),
        SetDefaultSpecUpdate(),
        AddSortOrderUpdate.model_validate({"sort-order": metadata.sort_order()}),
        SetDefaultSortOrderUpdate(),
        SetLocationUpdate(location=metadata.location),
        SetPropertiesUpdate(updates=metadata.properties),
    )


def update_json(update: Any) -> dict[str, Any]:
    """An update as Java writes it. PyIceberg would drop the `key-id` of a snapshot, and `null` defaults."""
    match update:
        case AddSnapshotUpdate():
            return {"action": update.action, "snapshot": snapshot_json(update.snapshot)}
        case AddSchemaUpdate():
            highest = update.schema_.highest_field_id
            return {"action": update.action, "schema": schema_json(update.schema_), "last-column-id": highest}
        case AddPartitionSpecUpdate():
            return {"action": update.action, "spec": spec_json(update.spec)}
        case AddSortOrderUpdate():
            return {"action": update.action, "sort-order": sort_order_json(update.sort_order)}
        case SetStatisticsUpdate() | SetPartitionStatisticsUpdate():
            return _statistics_update_json(update)
        case _:
            document: dict[str, Any] = update.model_dump(mode="json", by_alias=True, exclude_none=True)
            return document


def _statistics_update_json(update: SetStatisticsUpdate | SetPartitionStatisticsUpdate) -> dict[str, Any]:
    if isinstance(update, SetPartitionStatisticsUpdate):
        return {"action": update.action, "partition-statistics": statistics_json(update.partition_statistics)}
    file = update.statistics
    return {"action": update.action, "snapshot-id": file.snapshot_id, "statistics": statistics_json(file)}


def requirement_json(requirement: Any) -> dict[str, Any]:
    document: dict[str, Any] = requirement.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(requirement, AssertRefSnapshotId):
        document["snapshot-id"] = requirement.snapshot_id  # null means that the ref must not exist
    return document


def _add(update: AddEncryptionKeyUpdate, base_metadata: Any, context: Any) -> Any:
    metadata = _v3(base_metadata)
    context.add_update(update)
    ring = metadata.encryption_keys.with_keys(update.encryption_key)
    return metadata.model_copy(update={"encryption_keys": ring})


def _remove(update: RemoveEncryptionKeyUpdate, base_metadata: Any, context: Any) -> Any:
    return _remove_keys(_RemoveKeys((update,)), base_metadata, context)


def _remove_keys(group: _RemoveKeys, base_metadata: Any, context: Any) -> Any:
    metadata = _v3(base_metadata)
    for update in group.updates:
        context.add_update(update)
    gone = {update.key_id for update in group.updates}
    # Not `without`: a changed entry is removed and added again, and its children stay. The invariants
    # refuse orphaned keys when the whole change is applied.
    entries = tuple(entry for entry in metadata.encryption_keys if entry.key_id not in gone)
    return metadata.model_copy(update={"encryption_keys": Keyring(entries)})


def _expire(update: RemoveSnapshotsUpdate, base_metadata: Any, context: Any) -> Any:
    if not isinstance(base_metadata, V3TableMetadata):
        return _expire_as_pyiceberg(update, base_metadata, context)
    gone = set(update.snapshot_ids) & {snapshot.snapshot_id for snapshot in base_metadata.snapshots}
    if not gone:
        return base_metadata
    context.add_update(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(gone)}))
    after: Any = base_metadata
    for removal in _removals_with(base_metadata, gone):
        after = apply_table_update(removal, after, context)
    left = [snapshot for snapshot in base_metadata.snapshots if snapshot.snapshot_id not in gone]
    return after.model_copy(update={"snapshots": left, "snapshot_log": _log_without(base_metadata, gone)})


def _log_without(metadata: V3TableMetadata, gone: set[int]) -> list[SnapshotLogEntry]:
    """The log after its last expired snapshot, as in Java: with a gap, time travel would find a wrong snapshot."""
    log = metadata.snapshot_log
    last = max((at for at, entry in enumerate(log) if entry.snapshot_id in gone), default=-1)
    return log[last + 1 :]


def _removals_with(metadata: V3TableMetadata, gone: set[int]) -> Iterator[TableUpdate]:
    """The updates that follow from expired snapshots: their refs and statistics go too."""
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in gone:
            yield RemoveSnapshotRefUpdate.model_validate({"ref-name": name})
    for number in dict.fromkeys(each.snapshot_id for each in metadata.statistics if each.snapshot_id in gone):
        yield RemoveStatisticsUpdate.model_validate({"snapshot-id": number})
    for number in dict.fromkeys(each.snapshot_id for each in metadata.partition_statistics if each.snapshot_id in gone):
        yield RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": number})


def _remove_statistics(update: Any, base_metadata: Any, context: Any) -> Any:
    """As Java: statistics that are already gone are not an error."""
    partition = isinstance(update, RemovePartitionStatisticsUpdate)
    apply = _remove_partition_statistics_as_pyiceberg if partition else _remove_statistics_as_pyiceberg
    files = base_metadata.partition_statistics if partition else base_metadata.statistics
    known = any(file.snapshot_id == update.snapshot_id for file in files)
    if not known and isinstance(base_metadata, V3TableMetadata):
        return base_metadata
    return apply(update, base_metadata, context)


def _v3(metadata: object) -> V3TableMetadata:
    if not isinstance(metadata, V3TableMetadata):
        raise UnsupportedError("encryption keys need a table of format version 3")
    return metadata


# PyIceberg applies updates by a single-dispatch function, in which more classes can be registered.
_register: Any = apply_table_update.register
_expire_as_pyiceberg: Any = apply_table_update.dispatch(RemoveSnapshotsUpdate)
_remove_statistics_as_pyiceberg: Any = apply_table_update.dispatch(RemoveStatisticsUpdate)
_remove_partition_statistics_as_pyiceberg: Any = apply_table_update.dispatch(RemovePartitionStatisticsUpdate)
_register(RemoveSnapshotsUpdate)(_expire)
_register(RemoveStatisticsUpdate)(_remove_statistics)
_register(RemovePartitionStatisticsUpdate)(_remove_statistics)
_register(AddEncryptionKeyUpdate)(_add)
_register(RemoveEncryptionKeyUpdate)(_remove)
_register(_RemoveKeys)(_remove_keys)
