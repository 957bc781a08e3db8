"""Table metadata of version 3: PyIceberg's model plus the fields that it lacks.

    + encryption-keys      the keyring
    + snapshot key-id      the keyring entry that opens the manifest list
    + unknown members      kept and written back
    + Java's own form      field for field, so that the SHA-256 of the file is Java's `metadata_hash`

PyIceberg parses schemas, specs and so on; the parsed JSON is kept too (`_raw`), and an unchanged part is
written as it was read. Only changed and new parts are written from the model.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import (
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
    field_validator,
    model_serializer,
)
from pyiceberg.exceptions import ValidationError as IcebergValidationError
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry

from sealberg.errors import FormatError, UnsupportedError
from sealberg.keys.keyring import Keyring
from sealberg.keys.long_keyring import long_keyring
from sealberg.metadata import java_json
from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.long_lists import MOST_FOUND, LongList
from sealberg.metadata.number_bounds import check_bounds
from sealberg.metadata.partition_types import unified
from sealberg.metadata.quick_snapshots import quick_snapshots
from sealberg.metadata.schema_json import schema_json, sort_order_json, spec_json
from sealberg.metadata.snapshot_refs import check_refs
from sealberg.metadata.spec_sources import check_sources
from sealberg.metadata.statistics import V3PartitionStatisticsFile, V3StatisticsFile, statistics_json
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.table.sorting import SortOrder
    from pyiceberg.types import StructType

    KeyringMember = Keyring
else:
    KeyringMember = Annotated[
        Any,  # for a dataclass type, pydantic would rebuild the keyring
        PlainValidator(lambda keys: keys if isinstance(keys, Keyring) else Keyring.from_json(keys)),
        PlainSerializer(Keyring.to_json),
    ]

FORMAT_VERSION: Final = 3
# Fields that are made when somebody asks for them, and their members.
_LONG: Final[Mapping[str, str]] = {"snapshots": "snapshots", "snapshot_log": "snapshot-log"}
# Exceptions of PyIceberg's validators besides ValidationError.
UNPARSEABLE: Final = (TypeError, KeyError, AttributeError, OverflowError, RecursionError)


class V3Snapshot(Snapshot):
    """A snapshot with the id of the key that opens its manifest list."""

    model_config = ConfigDict(extra="allow")

    key_id: str | None = Field(alias="key-id", default=None)

    @field_validator("summary", mode="before")
    @classmethod
    def _of_text(cls, value: object) -> object:
        """PyIceberg takes any JSON, and fails where a number of the summary is needed."""
        wrong = (
            [name for name, each in value.items() if not isinstance(each, str | Operation)]
            if isinstance(value, dict)
            else []
        )
        if wrong:
            raise ValueError(f"{wrong[0]} of the summary of a snapshot is not a text")
        return value

    def manifests(self, io: FileIO, **_: Any) -> list[ManifestFile]:
        """The manifests of this snapshot; every reader of PyIceberg calls this method."""
        from sealberg.metadata.manifest import read_manifest_list

        return read_manifest_list(io, self.manifest_list, self.key_id)


class V3Ref(SnapshotRef):
    """A branch or a tag, with its unknown members."""

    model_config = ConfigDict(extra="allow")


class V3TableMetadata(TableMetadataV3):
    """The metadata of a version 3 table, encrypted or not. Immutable: a change returns new metadata."""

    model_config = ConfigDict(extra="allow")

    snapshots: list[V3Snapshot] = Field(default_factory=list)  # type: ignore[assignment]  # a list of a subclass
    refs: dict[str, V3Ref] = Field(default_factory=dict)  # type: ignore[assignment]
    statistics: list[V3StatisticsFile] = Field(default_factory=list)  # type: ignore[assignment]
    partition_statistics: list[V3PartitionStatisticsFile] = Field(  # type: ignore[assignment]
        alias="partition-statistics", default_factory=list
    )
    next_row_id: int = Field(alias="next-row-id", default=0)
    encryption_keys: KeyringMember = Field(alias="encryption-keys", default_factory=Keyring)

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)
    # Lists that are made when somebody asks for the field of this name. Until then `__dict__` lacks the field.
    _long: dict[str, LongList] = PrivateAttr(default_factory=dict)
    _found: dict[int, V3Snapshot | None] = PrivateAttr(default_factory=dict)
    _by_id: tuple[list[V3Snapshot], int, dict[int, V3Snapshot]] = PrivateAttr(default_factory=lambda: ([], 0, {}))

    def name_mapping(self) -> NameMapping | None:
        """The names of columns in files without field ids."""
        found: NameMapping | None = value_of(self.properties, TableProperties.DEFAULT_NAME_MAPPING, None)
        return found

    @field_validator("next_row_id", mode="before")
    @classmethod
    def _to_row_id(cls, value: int | None) -> int:
        return 0 if value is None else value

    @field_validator("snapshots", mode="before")
    @classmethod
    def _to_snapshots(cls, value: object) -> object:
        return quick_snapshots(V3Snapshot, value)

    # PyIceberg's serializer of the same name would write the fields of the parent class only.

    @field_serializer("snapshots")
    def serialize_snapshots(self, snapshots: list[V3Snapshot]) -> list[V3Snapshot]:  # type: ignore[override]
        return snapshots

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the text of a metadata.json."""
        try:
            raw = java_json.loads(text)
        except ValueError as error:
            raise FormatError(f"table metadata are not JSON: {error}") from error
        if not isinstance(raw, dict) or raw.get("format-version") != FORMAT_VERSION:
            found = raw.get("format-version") if isinstance(raw, dict) else type(raw).__name__
            raise UnsupportedError(f"table metadata have the format version {found}, expected 3")
        return cls.from_raw(raw)

    @classmethod
    def from_raw(cls, raw: dict[str, Any]) -> Self:
        """The metadata from parsed JSON, as a REST catalog returns it."""
        long = {name: each for name in _LONG.values() if isinstance(each := raw.get(name), LongList)}
        ring = raw.get("encryption-keys")
        given: dict[str, Any] = {**raw, **dict.fromkeys(long, ())} if long or isinstance(ring, LongList) else raw
        try:
            with gc_paused():
                if isinstance(ring, LongList):
                    given["encryption-keys"] = long_keyring(ring.keys()) or ring.parsed()
                self = cls.model_validate(given)
        except ValidationError as error:
            raise FormatError(f"table metadata do not parse: {_first_line(error)}") from error
        except IcebergValidationError as error:
            raise FormatError(f"table metadata are inconsistent: {error}") from error
        except UNPARSEABLE as error:
            raise FormatError(f"table metadata do not parse: {type(error).__name__}: {str(error)[:200]}") from error
        check_bounds(self)
        check_sources(self)
        self._raw = raw
        self._long = {field: long[name] for field, name in _LONG.items() if name in long}
        for field in self._long:
            del self.__dict__[field]
        check_refs(self)
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a field that `__dict__` lacks: makes its objects."""
            long = None if name not in _LONG else self._long.get(name)
            if long is None:
                return super().__getattr__(name)
            with gc_paused():
                made = _objects(name, long.parsed())
            return self.__dict__.setdefault(name, made)

    def settled(self) -> Self:
        """The same metadata with all objects made: for code of pydantic, which reads `__dict__`."""
        for name in self._long:
            getattr(self, name)
        return self

    def specs_struct(self, spec_ids: Iterable[int] | None = None) -> StructType:
        """The partition fields of these specs as `table.inspect` shows them; PyIceberg fails at dropped columns."""
        specs = self.specs()
        chosen = specs.values() if spec_ids is None else [specs[number] for number in spec_ids if number in specs]
        return unified(chosen, self.schema())

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot with this id; of a long list that nobody has asked for, only this snapshot is made."""
        long = None if "snapshots" in self.__dict__ else self._long.get("snapshots")
        if long is None or (snapshot_id not in self._found and len(self._found) >= MOST_FOUND):
            return self._indexed().get(snapshot_id)
        if snapshot_id not in self._found:
            raw = long.snapshot(snapshot_id)
            self._found[snapshot_id] = None if raw is None else _objects("snapshots", [raw])[0]
        return self._found[snapshot_id]

    def _indexed(self) -> dict[int, V3Snapshot]:
        """The snapshots by id, the first of two with one id; PyIceberg asks for thousands when it expires them."""
        snapshots, count, found = self._by_id
        if snapshots is not self.snapshots or count != len(snapshots):
            found = {each.snapshot_id: each for each in reversed(self.snapshots)}
            self._by_id = (self.snapshots, len(self.snapshots), found)
        return found

    @model_serializer(mode="wrap")
    def _serialized(self, serialize: SerializerFunctionWrapHandler) -> Any:
        return serialize(self.settled())

    def __getstate__(self) -> dict[Any, Any]:
        return super(V3TableMetadata, self.settled()).__getstate__()

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        return super(V3TableMetadata, self.settled()).__iter__()

    def __repr_args__(self) -> Any:
        return super(V3TableMetadata, self.settled()).__repr_args__()

    @property
    def document(self) -> Mapping[str, Any]:
        """The parsed JSON from which these metadata were read, with unknown members."""
        return {name: each.parsed() if isinstance(each, LongList) else each for name, each in self._raw.items()}

    def in_java_form(self) -> Self:
        """A copy whose parts are all written as Java writes them, also those that another writer wrote otherwise.

        Java compares the hash of its own text with the catalog's, so new metadata of an encrypted table need this.
        """
        made = self.model_copy()
        made._raw = {}  # noqa: SLF001 (of this very class)
        return made

    def to_json(self) -> str:
        """The text of a metadata.json, in Java's order and form."""
        with gc_paused():
            return java_json.dumps(_to_raw(self))

    def metadata_hash(self) -> str:
        """The hash that Java stores in the Hive Metastore to detect a changed metadata.json."""
        return metadata_hash(self.to_json().encode())

    def __eq__(self, other: object) -> bool:
        """Whether both would be written as the same metadata.json, whatever they were read from."""
        if not isinstance(other, V3TableMetadata):
            return NotImplemented
        if self is other:
            return True
        # Metadata of another time are different; to tell that, no snapshot has to be written out.
        return self.last_updated_ms == other.last_updated_ms and _to_raw(self) == _to_raw(other)

    __hash__ = TableMetadataV3.__hash__

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        # PyIceberg copies metadata deeply with every update. What is never changed is shared: a table may have
        # thousands of snapshots.
        memo = {} if memo is None else memo
        memo.update((id(part), part) for part in (self._raw, self._long, self._found, self._by_id))
        memo.update((id(part), part) for field in _LONG for part in self.__dict__.get(field, ()))
        return super().__deepcopy__(memo)

    def model_dump_json(self, *_: Any, **__: Any) -> str:
        """Used by PyIceberg to write the file; PyIceberg's own method refuses version 3."""
        return self.to_json()


def _objects(field: str, raw: list[dict[str, Any]]) -> list[Any]:
    """The objects of a long list, which has only regular ones."""
    if field == "snapshots":
        made: Any = quick_snapshots(V3Snapshot, raw)
        return [each if type(each) is V3Snapshot else V3Snapshot.model_validate(each) for each in made]
    return [SnapshotLogEntry.model_validate(each) for each in raw]


def metadata_hash(text: bytes) -> str:
    """Base64 of the SHA-256 over the (uncompressed) text."""
    return base64.b64encode(hashlib.sha256(text).digest()).decode("ascii")


def _to_raw(metadata: V3TableMetadata) -> dict[str, Any]:
    raw = metadata._raw  # noqa: SLF001 (of this very module)
    out: dict[str, Any] = {
        "format-version": FORMAT_VERSION,
        "table-uuid": str(metadata.table_uuid),
        "location": metadata.location,
        "last-sequence-number": metadata.last_sequence_number,
        "last-updated-ms": metadata.last_updated_ms,
        "last-column-id": metadata.last_column_id,
        "current-schema-id": metadata.current_schema_id,
        "schemas": _kept(raw.get("schemas"), "schema-id", metadata.schemas, schema_json),
        "default-spec-id": metadata.default_spec_id,
        "partition-specs": _kept(raw.get("partition-specs"), "spec-id", metadata.partition_specs, spec_json),
        "last-partition-id": metadata.last_partition_id,
        "default-sort-order-id": metadata.default_sort_order_id,
        "sort-orders": _kept(raw.get("sort-orders"), "order-id", metadata.sort_orders, sort_order_json),
        "properties": dict(metadata.properties),
        "current-snapshot-id": metadata.current_snapshot_id,
        "next-row-id": metadata.next_row_id,
        **({"encryption-keys": metadata.encryption_keys.to_json()} if len(metadata.encryption_keys) else {}),
        "refs": {name: _ref_json(ref) for name, ref in metadata.refs.items()},
        "snapshots": [snapshot_json(snapshot) for snapshot in metadata.snapshots],
        "statistics": _statistics(raw.get("statistics"), metadata.statistics),
        "partition-statistics": _statistics(raw.get("partition-statistics"), metadata.partition_statistics),
        "snapshot-log": [
            {"timestamp-ms": entry.timestamp_ms, "snapshot-id": entry.snapshot_id} for entry in metadata.snapshot_log
        ],
        "metadata-log": [
            {"timestamp-ms": entry.timestamp_ms, "metadata-file": entry.metadata_file}
            for entry in metadata.metadata_log
        ],
    }
    return {**out, **(metadata.model_extra or {})}


def _kept(
    read: list[dict[str, Any]] | None, id_name: str, pieces: Iterable[Any], write: Callable[[Any], dict[str, Any]]
) -> list[Any]:
    """Each part as it was read if it is unchanged, else as Java would write it."""
    before = {item.get(id_name): item for item in read or []}  # PyIceberg uses 0 for a missing id
    out = []
    for piece in pieces:
        written = write(piece)
        old = before.get(written[id_name])
        out.append(old if old is not None and type(piece).model_validate(old) == piece else written)
    return out


def _statistics(read: list[dict[str, Any]] | None, files: Iterable[Any]) -> list[Any]:
    before = {(item["snapshot-id"], item["statistics-path"]): item for item in read or []}

    def kept(file: Any) -> dict[str, Any]:
        old = before.get((file.snapshot_id, file.statistics_path))
        return old if old is not None and type(file).model_validate(old) == file else statistics_json(file)

    return [kept(file) for file in files]


def _ref_json(ref: SnapshotRef) -> dict[str, Any]:
    out = {
        "snapshot-id": ref.snapshot_id,
        "type": ref.snapshot_ref_type.value,
        "min-snapshots-to-keep": ref.min_snapshots_to_keep,
        "max-snapshot-age-ms": ref.max_snapshot_age_ms,
        "max-ref-age-ms": ref.max_ref_age_ms,
    }
    return {**_present(out), **(ref.model_extra or {})}


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    summary = snapshot.summary
    out = {
        "sequence-number": snapshot.sequence_number or None,
        "snapshot-id": snapshot.snapshot_id,
        "parent-snapshot-id": snapshot.parent_snapshot_id,
        "timestamp-ms": snapshot.timestamp_ms,
        # Not `summary and`: a summary is a mapping, and its length takes longer than all the rest.
        "summary": None if summary is None else {"operation": summary.operation.value, **summary.additional_properties},
        "manifest-list": str(snapshot.manifest_list),
        "schema-id": snapshot.schema_id,
        "first-row-id": snapshot.first_row_id,
        "added-rows": snapshot.added_rows,
        "key-id": getattr(snapshot, "key_id", None),
    }
    return {**_present(out), **(snapshot.model_extra or {})}


def _present(members: dict[str, Any]) -> dict[str, Any]:
    """The members without nulls, which Java omits."""
    return {name: value for name, value in members.items() if value is not None}


def _first_line(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def new_metadata(
    *, schema: Schema, spec: PartitionSpec, sort_order: SortOrder, location: str, properties: Mapping[str, str]
) -> V3TableMetadata:
    """The first metadata of a new table; schema, spec and order have their final ids."""
    members = {
        "location": location,
        "last-column-id": schema.highest_field_id,
        "current-schema-id": schema.schema_id,
        "schemas": [schema],
        "partition-specs": [spec],
        "default-spec-id": spec.spec_id,
        "last-partition-id": spec.last_assigned_field_id,
        "sort-orders": [sort_order],
        "default-sort-order-id": sort_order.order_id,
        "properties": dict(properties),
    }
    return V3TableMetadata.model_validate(members)
