"""Metadata tables, `hr.salaries.snapshots` for instance, with Java's names and types. No key is in any of them.

snapshots   history   refs   metadata_log_entries   files   data_files   delete_files   manifests   partitions
keys        the tree of keys: master key > KEK > key of a manifest list > snapshot
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.table import Table

from sealberg.errors import ConfigError
from sealberg.metadata.table_metadata import V3TableMetadata
from sealberg.spark.driver.arrow_json import json_field, json_value
from sealberg.spark.protocol.tables import MetadataTableRows
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

OF_ONE_SNAPSHOT: Final = ("files", "data_files", "delete_files", "manifests", "partitions")
KINDS: Final = ("snapshots", "history", "refs", "metadata_log_entries", "keys", *OF_ONE_SNAPSHOT)
OPTIONAL: Final = ("content", "spec_id", "manifest_list")  # in Java, though never null; in `files` and `snapshots`
LEFT_OUT: Final = ("key_metadata",)  # no key is shown
COUNTS: Final = (
    "record_count",
    "file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
)


def metadata_table(table: Table, kind: str, past: Snapshot | None = None) -> MetadataTableRows:
    """A metadata table, of the current snapshot or of one in the past."""
    name = f"{'.'.join(table.name())}.{kind}"
    if past is not None and kind not in OF_ONE_SNAPSHOT:
        raise ConfigError(
            f"{name} is about all snapshots, so VERSION AS OF and TIMESTAMP AS OF have no meaning there; "
            f"they choose a snapshot of {', '.join(OF_ONE_SNAPSHOT)}"
        )
    found = _keys(table) if kind == "keys" else _inspected(table, kind, past)
    found = found.select([field.name for field in found.schema if field.name not in LEFT_OUT])
    fields = [json_field(_as_in_java(field, kind), moment=True) for field in found.schema]
    rows = (
        tuple(json_value(value, field.type) for value, field in zip(row.values(), found.schema, strict=True))
        for row in found.to_pylist()
    )
    return MetadataTableRows(name, {"type": "struct", "fields": fields}, tuple(rows))


def _as_in_java(field: pa.Field, kind: str) -> pa.Field:
    return field.with_nullable(True) if field.name in OPTIONAL and kind.endswith(("files", "snapshots")) else field


def _inspected(table: Table, kind: str, past: Snapshot | None) -> pa.Table:
    if kind == "partitions" and table.metadata.current_snapshot() is None:
        return _partitions_of_nothing(table)
    if past is None or kind != "manifests":
        of_snapshot = () if past is None else (past.snapshot_id,)
        found: pa.Table = getattr(table.inspect, kind)(*of_snapshot)
        return found
    # PyIceberg shows the manifests of the current snapshot only, so it gets the table with that one as current.
    then = table.metadata.model_copy(update={"current_snapshot_id": past.snapshot_id})
    kind_of_table = EncryptedTable if isinstance(table, EncryptedTable) else Table
    old = kind_of_table(table.name(), then, table.metadata_location, table.io, table.catalog, table.config)
    return old.inspect.manifests()


def _partitions_of_nothing(table: Table) -> pa.Table:
    """PyIceberg asks for a snapshot; the columns are those that it gives for one."""
    kinds = {name: pa.int64() if "record" in name or "size" in name else pa.int32() for name in COUNTS}
    counts = [pa.field(name, kind, nullable=False) for name, kind in kinds.items()]
    by = [pa.field("partition", table.inspect.files().schema.field("partition").type, nullable=False)]
    by.append(pa.field("spec_id", pa.int32(), nullable=False))
    last = [pa.field("last_updated_at", pa.timestamp("ms")), pa.field("last_updated_snapshot_id", pa.int64())]
    return pa.schema([*(by if table.metadata.spec().fields else ()), *counts, *last]).empty_table()


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
    if not isinstance(table, EncryptedTable) or not isinstance(metadata, V3TableMetadata):
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
