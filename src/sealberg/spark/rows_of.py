"""Metadata tables: `hr.salaries.snapshots` and its like, as rows of text and numbers. No key is in any of them.

snapshots   history   files   manifests   partitions   refs
keys        the tree of keys: master key > KEK > key of a manifest list > snapshot
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.table import Table

from sealberg.errors import ConfigError
from sealberg.table.metadata import V3TableMetadata
from sealberg.table.sealed_table import SealedTable

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

KINDS: Final = ("snapshots", "history", "files", "manifests", "partitions", "refs", "keys")
OF_ONE_SNAPSHOT: Final = ("files", "manifests", "partitions")
LEFT_OUT: Final = ("key_metadata", "readable_metrics")  # never shown; values of rows, and not of simple types


def described(table: Table, kind: str, past: Snapshot | None = None) -> dict[str, Any]:
    """A metadata table, of the current snapshot or of one in the past."""
    name = f"{'.'.join(table.name())}.{kind}"
    if past is not None and kind not in OF_ONE_SNAPSHOT:
        raise ConfigError(
            f"{name} is about all snapshots, so VERSION AS OF and TIMESTAMP AS OF have no meaning there; "
            f"they choose a snapshot of {', '.join(OF_ONE_SNAPSHOT)}"
        )
    found = _keys(table) if kind == "keys" else _inspected(table, kind, past)
    columns = [one for one in found.schema if one.name not in LEFT_OUT]
    rows = found.select([one.name for one in columns]).to_pylist()
    return {
        "rows-of": name,
        "schema": {
            "type": "struct",
            "fields": [
                {"name": one.name, "type": _type(one.type), "nullable": True, "metadata": {}} for one in columns
            ],
        },
        "rows": [[_value(value) for value in row.values()] for row in rows],
    }


def _inspected(table: Table, kind: str, past: Snapshot | None) -> pa.Table:
    if past is None or kind != "manifests":
        of_snapshot = () if past is None else (past.snapshot_id,)
        found: pa.Table = getattr(table.inspect, kind)(*of_snapshot)
        return found
    # PyIceberg shows the manifests of the current snapshot only, so it gets the table with that one as current.
    then = table.metadata.model_copy(update={"current_snapshot_id": past.snapshot_id})
    kind_of_table = SealedTable if isinstance(table, SealedTable) else Table
    old = kind_of_table(table.name(), then, table.metadata_location, table.io, table.catalog, table.config)
    return old.inspect.manifests()


def _keys(table: Table) -> pa.Table:
    """One row for each snapshot of a list key; ids only, of keys that are wrapped or sealed."""
    fields = {
        "snapshot_id": pa.int64(),
        "key_id": pa.string(),
        "kek_id": pa.string(),
        "kek_made_at": pa.timestamp("us"),
    }
    schema = pa.schema({**fields, "master_key_id": pa.string()})
    metadata = table.metadata
    if not isinstance(table, SealedTable) or not isinstance(metadata, V3TableMetadata):
        return schema.empty_table()
    ring, rows = metadata.encryption_keys, []
    for snapshot in metadata.snapshots:
        entry = ring.get(snapshot.key_id) if snapshot.key_id else None
        kek = ring.get(entry.encrypted_by_id) if entry is not None and entry.encrypted_by_id else None
        made = int(kek.timestamp) * 1000 if kek is not None and kek.timestamp else None
        rows.append(
            {
                "snapshot_id": snapshot.snapshot_id,
                "key_id": snapshot.key_id,
                "kek_id": kek.key_id if kek else None,
                "kek_made_at": made,
                "master_key_id": kek.encrypted_by_id if kek else None,
            }
        )
    return pa.Table.from_pylist(rows, schema)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "long" if kind.bit_width == 64 else "integer"
    return "timestamp" if pa.types.is_timestamp(kind) else "string"


def _value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case dt.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        case _:
            return json.dumps(value, default=_plain)


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
