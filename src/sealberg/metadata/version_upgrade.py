"""Upgrades the format version of an existing table, by a property or by a method, as in Iceberg Java.

    SET TBLPROPERTIES ('format-version'='3')            ─┐
    transaction.set_properties({"format-version": "3"})  ├─> asked_version ──> as_version_3 ──> one commit
    transaction.upgrade_table_version(3)                ─┘

PyIceberg stores `format-version` as a table property, which has no effect, and cannot write version 3. The files of
a table are not rewritten: readers of version 3 read the manifests and data files of versions 1 and 2.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.update import SetPropertiesUpdate, UpgradeFormatVersionUpdate

from sealberg.errors import ConfigError
from sealberg.metadata.invariants import VERSION_PROPERTY, check_types
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3TableMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate


def asked_version(updates: Iterable[TableUpdate]) -> tuple[tuple[TableUpdate, ...], int | None]:
    """The updates without those of the format version, and the last requested version."""
    version: int | None = None
    left: list[TableUpdate] = []
    for update in updates:
        match update:
            case UpgradeFormatVersionUpdate():
                version = update.format_version
            case SetPropertiesUpdate() if VERSION_PROPERTY in update.updates:
                version = parse_version(update.updates)
                rest = {name: value for name, value in update.updates.items() if name != VERSION_PROPERTY}
                left += [SetPropertiesUpdate(updates=rest)] if rest else []
            case _:
                left.append(update)
    return tuple(left), version


def parse_version(properties: Mapping[str, Any]) -> int:
    try:
        return int(properties[VERSION_PROPERTY])
    except ValueError:
        raise ConfigError(f"{VERSION_PROPERTY} must be an integer, found {properties[VERSION_PROPERTY]!r}") from None


def version_first(
    updates: tuple[TableUpdate, ...], current: TableMetadata | None
) -> tuple[tuple[TableUpdate, ...], bool]:
    """The updates of a table of version 1 or 2, and whether they upgrade the table to version 3.

    If they do, the returned updates omit the version. If not, a requested version is the first update, in PyIceberg's
    class.
    """
    left, version = asked_version(updates)
    if version is None:
        return updates, False
    if current is not None:
        refuse_other_version(current.format_version, version)
    if version == FORMAT_VERSION:
        return left, True
    return (UpgradeFormatVersionUpdate.model_validate({"format-version": version}), *left), False


def as_property(updates: tuple[TableUpdate, ...]) -> tuple[TableUpdate, ...]:
    """The updates plus the version as a property, so that PyIceberg sees a change; `as_version_3` removes it again."""
    return (*updates, SetPropertiesUpdate(updates={VERSION_PROPERTY: str(FORMAT_VERSION)}))


def as_version_3(metadata: TableMetadata) -> V3TableMetadata:
    """The same table in version 3. No snapshot has row ids: the next commit assigns them to all files, as in Java."""
    if isinstance(metadata, TableMetadataV1):
        metadata = metadata.to_v2()
    raw: dict[str, Any] = json.loads(metadata.model_dump_json())
    properties = {name: value for name, value in metadata.properties.items() if name != VERSION_PROPERTY}
    raw |= {"format-version": FORMAT_VERSION, "next-row-id": 0, "properties": properties}
    upgraded = V3TableMetadata.from_raw(raw)
    for schema in upgraded.schemas:
        check_types(schema)
    return upgraded


def refuse_other_version(current: int, version: int) -> None:
    """Refuse a downgrade or an unknown version, with Java's messages."""
    if version < current:
        raise ConfigError(f"Cannot downgrade v{current} table to v{version}")
    if version > FORMAT_VERSION:
        raise ConfigError(f"Cannot upgrade table to unsupported format version: v{version} (supported: v3)")
