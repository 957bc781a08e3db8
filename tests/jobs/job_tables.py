"""Tables for jobs that move keys, and what a reader sees of them.

make(catalog)      appends, a deletion vector, a tag on the first snapshot, a branch with rows of its own
state(table)       rows with their ids of every ref, and the definition of the table
keys_of(table)     the keys of lists and manifests, and the keys of files, that the master key opens
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from sealberg.keys.manager import KEY_ID_PROPERTY

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", StringType()))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
ROW_IDS = ("id", "part", "_row_id", "_last_updated_sequence_number")
MAIN_IDS = sorted({*range(30)} - {3, 14})  # of `make`


def rows(first: int, last: int) -> pa.Table:
    ids = range(first, last)
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [f"p{each % 3}" for each in ids]})


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    given = {KEY_ID_PROPERTY: "hr", "write.delete.mode": "merge-on-read", **properties}
    table = catalog.create_table(name, SCHEMA, partition_spec=SPEC, properties=given)
    table.append(rows(0, 10))
    first = table.metadata.current_snapshot_id
    table.append(rows(10, 20))
    table.manage_snapshots().create_tag(first, "first").commit()
    table.delete("id = 3 or id = 14")
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "side").commit()
    table.append(rows(100, 103), branch="side")
    table.append(rows(20, 30))
    return table


def content(table: Any, **scan: Any) -> list[dict[str, Any]]:
    found = table.scan(selected_fields=ROW_IDS, **scan).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def ids(table: Any) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())


def state(table: Any) -> dict[str, Any]:
    metadata = table.metadata
    refs = {name: content(table, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()}
    same = ("last_sequence_number", "next_row_id", "schemas", "partition_specs", "location", "current_snapshot_id")
    return {"refs": refs, **{name: getattr(metadata, name) for name in same}}


def keys_of(table: Any, *refs: str) -> tuple[set[Any], set[Any]]:
    """Of all snapshots, or of the heads of some refs."""
    upper, files = set[Any](), set[Any]()
    heads = {table.metadata.refs[name].snapshot_id for name in refs}
    for snapshot in table.metadata.snapshots:
        if not refs or snapshot.snapshot_id in heads:
            upper.add(table.io.open_list_key(snapshot.key_id))
            for line in snapshot.manifests(table.io):
                if line.key_metadata is not None:
                    upper.add(line.manifest_path.keys)
                files |= {entry.data_file.file_path.keys for entry in line.fetch_manifest_entry(table.io)}
    return upper, files
