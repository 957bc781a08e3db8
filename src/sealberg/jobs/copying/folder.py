"""A folder or a glob of Parquet files as a table to copy, with Hive-style partitions.

    s3://lake/raw/events/day=2026-01-31/part-0.parquet     a column `day` of the type date, an identity partition
    s3://lake/raw/events/*.parquet                         only these files

The schema is the union of the columns of all files, by name. Files that have Iceberg's field ids keep them; for all
others the table gets a name mapping. Names that begin with `_` or `.` are ignored, as in Spark.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType

from sealberg.errors import ConfigError, NothingThereError
from sealberg.files.confined_io import exact
from sealberg.files.file_io import naming
from sealberg.files.listing import list_files
from sealberg.files.parquet.writer import FIELD_ID
from sealberg.jobs.copying.source import Source, SourceManifest
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.table_metadata import V3Ref, V3Snapshot, new_metadata
from sealberg.pyiceberg_private import to_iceberg_schema
from sealberg.write.metrics import metrics_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.types import PrimitiveType

GLOB: Final = "*?["
ENDINGS: Final = (".parquet", ".parq", ".pq")
NULL: Final = "__HIVE_DEFAULT_PARTITION__"
NAME_MAPPING: Final = "schema.name-mapping.default"
FIRST_PARTITION_FIELD: Final = 1000


def is_folder(source: str) -> bool:
    """Whether a source is a place in storage and not the name of a table."""
    return "/" in source or any(each in source for each in GLOB)


@dataclass(frozen=True)
class _File:
    location: str
    size: int
    partition: tuple[tuple[str, str], ...]
    footer: pq.FileMetaData
    schema: pa.Schema


def read_folder(source: str, properties: dict[str, str], known: frozenset[int] = frozenset()) -> Source:  # noqa: ARG001
    """The Parquet files of a folder or glob as one snapshot, whatever snapshots a copy has already."""
    root = _root(source)
    io = exact(load_file_io(properties, root))
    files = [_opened(io, root, location, size) for location, size in _matching(io, source, root)]
    if not files:
        raise NothingThereError(f"there are no Parquet files at {source}")
    keys = _partition_keys(source, files)
    arrow = _union(files)
    schema = _schema(arrow, keys, files)
    fields = [_partition_field(at, schema.find_field(key)) for at, key in enumerate(keys)]
    spec = PartitionSpec(*fields, spec_id=0)
    mapping = {} if _has_ids(arrow) else {NAME_MAPPING: schema.name_mapping.model_dump_json()}
    digest = hashlib.sha256("\n".join(f"{file.location} {file.size}" for file in files).encode()).digest()
    snapshot_id = int.from_bytes(digest[:8], "big") >> 1
    entries = tuple(_entry(file, schema, keys, snapshot_id) for file in files)
    metadata = new_metadata(schema=schema, spec=spec, sort_order=UNSORTED_SORT_ORDER, location=root, properties=mapping)
    line = _line(f"{root}#{digest.hex()}", snapshot_id, entries)
    snapshot = _snapshot(snapshot_id, line, files)
    ref = V3Ref.model_validate({"snapshot-id": snapshot_id, "type": "branch"})
    metadata = metadata.model_copy(
        update={"snapshots": [snapshot], "current_snapshot_id": snapshot_id, "refs": {"main": ref}}
    )
    identity = hashlib.sha256(source.encode()).hexdigest()[:32]
    path = str(line.manifest_path)
    lines, manifests = {snapshot_id: (path,)}, {path: SourceManifest(line, entries)}
    return Source(source, identity, 1, metadata, io, (snapshot,), lines, manifests, is_folder=True)


# -- files --------------------------------------------------------------------------------------


def _root(source: str) -> str:
    """The folder above the first part with a wildcard."""
    parts = source.split("/")
    at = next((at for at, part in enumerate(parts) if any(each in part for each in GLOB)), len(parts))
    return "/".join(parts[:at]).rstrip("/") or "/"


def _matching(io: FileIO, source: str, root: str) -> Iterator[tuple[str, int]]:
    pattern = source if source.rstrip("/") != root else None
    for file in sorted(list_files(io, root)):
        below = file.location[len(root) :].lstrip("/").split("/")
        if any(part.startswith(("_", ".")) for part in below):
            continue
        if pattern is not None and not _matches(file.location, pattern):
            continue
        if not file.location.endswith(ENDINGS):
            raise ConfigError(f"{file.location} is not a Parquet file by its name; name the Parquet files with a glob")
        if file.problem is not None:
            raise ConfigError(f"{file.location} {file.problem}; expected files of normal names. Rename or remove it")
        yield file.location, file.size


def _matches(location: str, pattern: str) -> bool:
    """A wildcard does not match a `/`, but `**` matches any number of folders."""
    if "**" in pattern:
        return fnmatchcase(location, pattern.replace("**/", "*").replace("**", "*"))
    parts, patterns = location.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatchcase, parts, patterns))


def _opened(io: FileIO, root: str, location: str, size: int) -> _File:
    with naming(location), io.new_input(location).open() as stream:
        file = pq.ParquetFile(stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r"))
        folders = location[len(root) :].lstrip("/").split("/")[:-1]
        pairs = tuple(
            (unquote(key), unquote(value)) for key, there, value in (f.partition("=") for f in folders) if there
        )
        return _File(location, size, pairs, file.metadata, file.schema_arrow)


# -- schema -------------------------------------------------------------------------------------


def _partition_keys(source: str, files: Sequence[_File]) -> tuple[str, ...]:
    found = {tuple(key for key, _ in file.partition): file.location for file in files}
    if len(found) > 1:
        places = ", ".join(found.values())
        raise ConfigError(f"the files of {source} have different partition folders, expected the same keys: {places}")
    return next(iter(found))


def _union(files: Sequence[_File]) -> pa.Schema:
    fields: dict[str, pa.Field] = {}
    for file in files:
        for one in file.schema:
            known = fields.setdefault(one.name, one)
            if known.type != one.type:
                raise ConfigError(
                    f"{file.location}: the column {one.name} has the type {one.type}, in other files {known.type}; "
                    "expected one type"
                )
    whole = set.intersection(*(set(file.schema.names) for file in files))
    return pa.schema([one if one.name in whole else one.with_nullable(True) for one in fields.values()])


def _has_ids(schema: pa.Schema) -> bool:
    with_ids = [FIELD_ID in (one.metadata or {}) for one in schema]
    if any(with_ids) and not all(with_ids):
        raise ConfigError("some columns of the Parquet files have field ids and some have none, expected all or none")
    return bool(with_ids) and all(with_ids)


def _schema(arrow: pa.Schema, keys: Sequence[str], files: Sequence[_File]) -> Schema:
    has_ids = _has_ids(arrow)
    schema = pyarrow_to_schema(arrow) if has_ids else to_iceberg_schema(arrow)
    if not has_ids:
        schema = assign_fresh_schema_ids(schema)
    number = schema.highest_field_id
    more = []
    for key in (key for key in keys if key not in arrow.names):
        number += 1
        values = [dict(file.partition)[key] for file in files]
        more.append(NestedField(number, key, _type_of(values), required=False))
    return Schema(*schema.fields, *more, schema_id=0, identifier_field_ids=list(schema.identifier_field_ids))


def _type_of(values: Sequence[str]) -> PrimitiveType:
    given = [value for value in values if value != NULL]
    if given and all(value.lstrip("-").isdigit() and str(int(value)) == value for value in given):
        return IntegerType() if all(-(2**31) <= int(value) < 2**31 for value in given) else LongType()
    try:
        for value in given:
            if date.fromisoformat(value).isoformat() != value:
                return StringType()
    except ValueError:
        return StringType()
    return DateType() if given else StringType()


def _partition_field(at: int, field: NestedField) -> PartitionField:
    if not isinstance(field.field_type, StringType | IntegerType | LongType | DateType):
        raise ConfigError(
            f"the partition column {field.name} has the type {field.field_type} in the files, expected a "
            "string, an integer or a date"
        )
    return PartitionField(field.field_id, FIRST_PARTITION_FIELD + at, IdentityTransform(), field.name)


def _value(text: str, kind: Any) -> Any:
    if text == NULL:
        return None
    if isinstance(kind, IntegerType | LongType):
        return int(text)
    return (date.fromisoformat(text) - date(1970, 1, 1)).days if isinstance(kind, DateType) else text


# -- manifest -----------------------------------------------------------------------------------


def _entry(file: _File, schema: Schema, keys: Sequence[str], snapshot_id: int) -> ManifestEntry:
    given = dict(file.partition)
    values = [_value(given[key], schema.find_field(key).field_type) for key in keys]
    try:
        metrics = metrics_of(file.footer, schema, {})
    except (KeyError, ValueError):  # lists and maps that other writers have named in another way
        metrics = {}
    data_file = DataFileV3.from_args(
        content=DataFileContent.DATA,
        file_path=file.location,
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.size,
        **{**metrics, "record_count": file.footer.num_rows, "sort_order_id": None},
    )
    data_file.spec_id = 0
    return ManifestEntry.from_args(
        _table_format_version=3,
        status=ManifestEntryStatus.ADDED,
        snapshot_id=snapshot_id,
        sequence_number=0,
        file_sequence_number=0,
        data_file=data_file,
    )


def _line(path: str, snapshot_id: int, entries: Sequence[ManifestEntry]) -> ManifestFileV3:
    rows = sum(entry.data_file.record_count for entry in entries)
    return ManifestFileV3.from_args(
        manifest_path=path,
        manifest_length=0,
        partition_spec_id=0,
        content=ManifestContent.DATA,
        sequence_number=0,
        min_sequence_number=0,
        added_snapshot_id=snapshot_id,
        added_files_count=len(entries),
        existing_files_count=0,
        deleted_files_count=0,
        added_rows_count=rows,
        existing_rows_count=0,
        deleted_rows_count=0,
    )


def _snapshot(snapshot_id: int, line: ManifestFileV3, files: Sequence[_File]) -> V3Snapshot:
    counts = {"data-files": len(files), "records": line.added_rows_count, "files-size": sum(f.size for f in files)}
    summary = {f"{kind}-{name}": str(number) for kind in ("added", "total") for name, number in counts.items()}
    return V3Snapshot.model_validate(
        {
            "snapshot-id": snapshot_id,
            "sequence-number": 0,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": str(line.manifest_path),
            "summary": {"operation": "append", **summary},
            "schema-id": 0,
        }
    )
