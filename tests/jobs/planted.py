"""Faults to plant into a table, one each, and the code of the finding that `verify` must report.

Fault(name, code, plant)     plant(forge) changes the table; "deep" faults need every row to be decoded
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.plant import (
    _another_key,
    _double,
    _kek,
    _list_key,
    _null_partition,
    _old_data_line,
    _without_length,
    aged,
    altered,
    broken_json,
    cut,
    entry,
    expired,
    flip,
    flip_module,
    grow,
    keys,
    line,
    member,
    metadata,
    misplaced,
    nan_count,
    new_line,
    of_field,
    other_kek,
    other_metadata,
    plain_avro,
    plain_parquet,
    put,
    rolled_back,
    snapshot,
    stamp,
    statistics,
    summary,
    swap,
    unused_list_key,
    unvouched,
)
from sealberg.files.parquet.modules import ModuleKind
from sealberg.files.seal import seal_bytes
from sealberg.keys.keyring import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobs.forge import Forge


@dataclass(frozen=True)
class Fault:
    """What is planted; `code` is the only code that verify may report."""

    name: str
    code: str
    plant: Callable[[Forge], object]
    level: Any = "full"


PAGE, PAGE_HEADER = ModuleKind.DATA_PAGE, ModuleKind.DATA_PAGE_HEADER

FAULTS = (
    # -- Parquet
    Fault("data page", "altered", flip_module(PAGE)),
    Fault("nonce of a data page", "altered", flip_module(PAGE, 5)),
    Fault("length of a data page", "malformed", flip_module(PAGE, 3)),
    Fault("data page header", "altered", flip_module(PAGE_HEADER)),
    Fault("dictionary page", "altered", flip_module(ModuleKind.DICTIONARY_PAGE)),
    Fault("dictionary page header", "altered", flip_module(ModuleKind.DICTIONARY_PAGE_HEADER)),
    Fault("column index", "altered", flip_module(ModuleKind.COLUMN_INDEX)),
    Fault("offset index", "altered", flip_module(ModuleKind.OFFSET_INDEX)),
    Fault("Parquet footer", "altered", lambda forge: flip(forge.parquet(), -20)),
    Fault("Parquet footer length", "malformed", lambda forge: flip(forge.parquet(), -6)),
    Fault("Parquet magic at the start", "malformed", lambda forge: flip(forge.parquet(), 3)),
    Fault("Parquet magic at the end", "malformed", lambda forge: flip(forge.parquet(), -1)),
    Fault("Parquet file cut", "length", lambda forge: cut(forge.parquet())),
    Fault("Parquet file grown", "length", lambda forge: grow(forge.parquet())),
    Fault("Parquet file missing", "missing", lambda forge: forge.parquet().unlink()),
    Fault("Parquet file empty", "length", lambda forge: forge.parquet().write_bytes(b"")),
    Fault("Parquet files swapped", "length", lambda forge: swap(forge.parquet(0), forge.parquet(2))),
    # -- AGS1
    Fault("manifest list", "altered", lambda forge: flip(forge.list_file(), 100)),
    Fault("manifest list header", "malformed", lambda forge: flip(forge.list_file(), 5)),
    Fault("manifest list cut", "length", lambda forge: cut(forge.list_file())),
    Fault("manifest list missing", "missing", lambda forge: forge.list_file().unlink()),
    Fault("manifest list in plaintext", "plaintext", lambda forge: plain_avro(forge.list_file())),
    Fault("manifest", "altered", lambda forge: flip(forge.manifest(), 100)),
    Fault("manifest cut", "length", lambda forge: cut(forge.manifest(), 30)),
    Fault("manifest grown", "length", lambda forge: grow(forge.manifest())),
    Fault("manifest missing", "missing", lambda forge: forge.manifest().unlink()),
    Fault("manifest in plaintext", "plaintext", lambda forge: plain_avro(forge.manifest())),
    Fault("deletion vector", "altered", lambda forge: flip(forge.puffin(), 60)),
    Fault("deletion vector missing", "missing", lambda forge: forge.puffin().unlink()),
    Fault("deletion vector cut", "length", lambda forge: cut(forge.puffin())),
    Fault("Avro file", "altered", lambda forge: flip(forge.avro(), -1)),
    Fault("Avro file cut", "length", lambda forge: cut(forge.avro())),
    Fault("Avro file missing", "missing", lambda forge: forge.avro().unlink()),
    Fault("Avro file in plaintext", "plaintext", lambda forge: plain_avro(forge.avro())),
    Fault("Avro block size", "malformed", lambda forge: flip(forge.avro(), 4)),
    # -- keys
    Fault("list key missing", "key-missing", keys(lambda entries: entries.remove(_list_key(entries)))),
    Fault("KEK missing", "key-missing", keys(lambda entries: entries.remove(_kek(entries)))),
    Fault("key entry doubled", "metadata", keys(_double)),
    Fault("list key altered", "key-altered", altered(_list_key)),
    Fault("KEK altered", "key-altered", altered(_kek)),
    Fault("KEK timestamp altered", "key-altered", keys(stamp(lambda before: before - 1))),
    Fault("KEK of the future", "key-time", keys(stamp(lambda before: before + 9 * DAY_MS))),
    Fault("KEK without timestamp", "key-time", keys(lambda entries: _kek(entries).pop("properties"))),
    Fault("KEK past its age", "kek-age", aged(731)),
    Fault("KEK near its age", "kek-age", aged(720)),
    Fault("KEK of another master key", "key-master", other_kek("elsewhere", used=True)),
    Fault("KEK that nothing needs", "key-unused", other_kek("hr", used=False)),
    Fault("list key that nothing needs", "key-unused", unused_list_key),
    Fault("snapshot without key", "plaintext", snapshot(0, key_id=None)),
    # -- the catalog and metadata.json
    Fault("hash differs", "catalog", unvouched),
    Fault("catalog points at older metadata", "catalog", rolled_back),
    Fault("metadata.json is not JSON", "metadata", broken_json),
    Fault("tag of no snapshot", "metadata", metadata(lambda d: d["refs"].update(t={"snapshot-id": 5, "type": "tag"}))),
    Fault("snapshot of no schema", "snapshot", snapshot(0, schema_id=9)),
    Fault("last sequence number", "sequence", member("last-sequence-number", lambda before: before - 1)),
    Fault("next row id", "row-ids", member("next-row-id", lambda before: before - 1)),
    Fault("snapshot's first row id", "row-ids", snapshot(1, first_row_id=lambda before: before + 1)),
    Fault("snapshot's added rows", "row-ids", snapshot(-1, added_rows=lambda before: before - 1)),
    Fault("summary: total records", "count", summary("total-records")),
    Fault("summary: total data files", "count", summary("total-data-files")),
    Fault("summary: total delete files", "count", summary("total-delete-files")),
    # -- lines of the manifest list
    Fault("added files count", "count", new_line(added_files_count=lambda before: before + 1)),
    Fault("added rows count", "count", line(added_rows_count=lambda before: before + 1)),
    Fault("existing files count", "count", line(existing_files_count=1)),
    Fault("existing rows count", "count", line(existing_rows_count=1)),
    Fault("deleted files count", "count", line(deleted_files_count=1)),
    Fault("deleted rows count", "count", line(deleted_rows_count=1)),
    Fault("smallest sequence number", "sequence", line(min_sequence_number=lambda before: before + 1)),
    Fault("manifest's sequence number", "sequence", line(sequence_number=lambda before: before + 1)),
    Fault("manifest's first row id", "row-ids", new_line(first_row_id=lambda before: before + 1)),
    Fault("manifest length", "size", line(manifest_length=lambda before: before + 1)),
    Fault("partition bounds", "partition", lambda forge: forge.lines(_null_partition)),
    Fault("partition spec", "entry", line(partition_spec_id=9)),
    Fault("manifest listed twice", "entry", lambda forge: forge.lines(_double)),
    Fault("manifest left out", "count", lambda forge: forge.lines(lambda lines: lines.remove(_old_data_line(lines)))),
    Fault("manifest without key", "plaintext", line(key_metadata=None)),
    Fault("manifest under another key", "altered", line(key_metadata=_another_key)),
    Fault("manifest without length", "no-length", line(key_metadata=_without_length)),
    # -- entries
    Fault("record count", "count", entry(record_count=lambda before: before + 1)),
    Fault("record count of Avro", "count", entry(avro=True, record_count=lambda before: before - 1)),
    Fault("file size", "size", entry(file_size_in_bytes=lambda before: before + 1)),
    Fault("column size", "size", entry(column_sizes=of_field(1, lambda before: before + 1))),
    Fault("value count", "count", entry(value_counts=of_field(1, lambda before: before + 1))),
    Fault("null count", "count", entry(null_value_counts=of_field(3, 7))),
    Fault("lower bound of numbers", "bounds", entry(lower_bounds=of_field(1, (38).to_bytes(8, "little")))),
    Fault("upper bound of numbers", "bounds", entry(upper_bounds=of_field(1, (21).to_bytes(8, "little")))),
    Fault("lower bound of strings", "bounds", entry(lower_bounds=of_field(2, b"canary-1"))),
    Fault("upper bound of strings", "bounds", entry(upper_bounds=of_field(2, b"canary-1"))),
    Fault("split offsets", "size", entry(split_offsets=[5])),
    Fault("partition value", "partition", entry(partition={"cat": "z"})),
    Fault("first row id", "row-ids", entry(first_row_id=3)),
    Fault("data sequence number", "sequence", entry(sequence_number=9)),
    Fault("file sequence number", "sequence", entry(file_sequence_number=9)),
    Fault("snapshot of an entry", "sequence", entry(snapshot_id=77)),
    Fault("sort order", "entry", entry(sort_order_id=9)),
    Fault("file without key", "no-key", entry(key_metadata=None)),
    Fault("file under another key", "altered", entry(key_metadata=_another_key)),
    Fault("file without length", "no-length", entry(key_metadata=_without_length)),
    Fault("deleted rows of a vector", "count", entry(deletes=True, record_count=2)),
    Fault("offset of a vector", "size", entry(deletes=True, content_offset=5)),
    Fault("data file of a vector", "entry", entry(deletes=True, referenced_data_file="file:///elsewhere")),
    Fault("NaN count", "count", entry(nan_value_counts=nan_count), "deep"),
    Fault("a row in another partition", "partition", misplaced, "deep"),
    # -- storage
    Fault("orphan", "orphan", put("lost.avro", seal_bytes(b"")[0])),
    Fault("plaintext Parquet", "plaintext", lambda forge: plain_parquet(forge.root / "data" / "copy.parquet")),
    Fault("plaintext in the place of a file", "plaintext", lambda forge: plain_parquet(forge.parquet())),
    Fault("foreign file", "plaintext", put("notes.txt", b"the password is")),
    Fault("metadata of another table", "foreign", other_metadata),
    Fault("keys of expired snapshots", "old-keys", expired),
    Fault("plaintext statistics", "plaintext", statistics(exists=True)),
    Fault("statistics missing", "missing", statistics(exists=False)),
)
