"""The private names of PyIceberg that sealberg uses, and nothing else.

    what                     | where it comes from                            | why
    append_range             | table.IncrementalAppendScan                    | which snapshots an append scan covers
    values_of, records_of    | typedef.Record._data                           | copy or make records by their values
    files_of                 | manifest.DataFile._spec_id                     | make files without a call for each value
    dict_of                  | utils.lazydict.LazyDict._build_dict            | what a decoded map holds, as a dict
    apply_table_update       | table.update._apply_table_update               | teach it the updates of encryption keys
    check_arrow_schema       | io.pyarrow._check_pyarrow_schema_compatible    | do these rows fit this table?
    UpdateSpecV3             | table.update.spec.UpdateSpec                   | partition fields get their old ids back
    UpdateSchemaV3           | table.update.schema.UpdateSchema               | names of dropped columns may come back
    TransactionSeams         | table.Transaction                              | its inner parts under names to rely on
    to_iceberg_schema        | catalog.Catalog._convert_schema_if_needed      | Arrow's schema as Iceberg's
    staged_by                | table.Transaction._table                       | the new table of a transaction
    adopt                    | table.Table._do_commit                         | the table after a commit
    with_small_buffer        | io.pyarrow.PyArrowFile                         | hundreds of local files open at a time
    glue_table_input         | catalog.glue._construct_table_input            | a table's columns and place in Glue
    inspected_files_schema   | table.inspect.InspectTable._get_files_schema   | the columns of `table.inspect.files()`

Two other files hold private names, because they override them: `catalogs/rest/pyiceberg_client.py`, with a contract as
below, so that programs without a REST catalog do not load its client; and `catalogs/guard.py`, which makes a
subclass of whatever catalog it is given.

A private name may change with any release. The contract below is checked at import, so that another
PyIceberg fails at once, by name and version, and not in the middle of a scan.
"""

from __future__ import annotations

import inspect
import warnings
from collections import deque
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyiceberg
from pyarrow.fs import LocalFileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.io import pyarrow as arrow_io
from pyiceberg.manifest import DataFile
from pyiceberg.table import IncrementalAppendScan, Table, Transaction, update
from pyiceberg.table.inspect import InspectTable
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.table.update.spec import UpdateSpec
from pyiceberg.typedef import Record
from pyiceberg.utils.lazydict import LazyDict

from sealberg.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.io import OutputFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import CommitTableResponse
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform

R = TypeVar("R", bound=Record)
F = TypeVar("F", bound=DataFile)


def check_contract(contract: Mapping[str, tuple[Any, str, Sequence[str] | None]]) -> None:
    """Refuse a PyIceberg in which a name is missing, or a function takes other arguments.

    Args:
        contract: for each name: its owner, its attribute, and its first arguments (None: no function).
    """
    for name, (owner, attribute, expected) in contract.items():
        if not hasattr(owner, attribute):
            raise UnsupportedError(_refusal(f"there is no {name}"))
        if expected is None:
            continue
        found = list(inspect.signature(getattr(owner, attribute)).parameters)[: len(expected)]
        if found != list(expected):
            raise UnsupportedError(_refusal(f"{name} takes {found}, expected {list(expected)}"))


def _refusal(reason: str) -> str:
    return f"PyIceberg {pyiceberg.__version__} is not the one that sealberg was written for (0.12): {reason}"


CONTRACT: Final[Mapping[str, tuple[Any, str, Sequence[str] | None]]] = {
    "IncrementalAppendScan._validate_and_resolve_snapshots": (
        IncrementalAppendScan,
        "_validate_and_resolve_snapshots",
        ("self",),
    ),
    "Record._data": (Record, "_data", None),
    "DataFile._spec_id": (SimpleNamespace(**DataFile.__annotations__), "_spec_id", None),  # no value until one is set
    "LazyDict._build_dict": (LazyDict, "_build_dict", ("self",)),
    "_apply_table_update": (update, "_apply_table_update", ("update", "base_metadata", "context")),
    "_check_pyarrow_schema_compatible": (
        arrow_io,
        "_check_pyarrow_schema_compatible",
        ("requested_schema", "provided_schema", "downcast_ns_timestamp_to_us", "format_version"),
    ),
    "InspectTable._get_files_schema": (InspectTable, "_get_files_schema", ("self",)),
    "UpdateSchema._apply": (UpdateSchema, "_apply", ("self",)),
    "UpdateSchema._deletes": (UpdateSchema, "_deletes", None),
    "UpdateSpec._partition_field": (UpdateSpec, "_partition_field", ("self", "transform_key", "name")),
    "Transaction.__init__": (Transaction, "__init__", ("self", "table", "autocommit")),
    "Transaction._apply": (Transaction, "_apply", ("self", "updates", "requirements")),
    "Transaction._stage": (Transaction, "_stage", ("self", "updates", "requirements")),
    "Table._do_commit": (Table, "_do_commit", ("self", "updates", "requirements")),
    "Table._check_uuid": (Table, "_check_uuid", ("current_metadata", "new_metadata")),
    "Catalog._convert_schema_if_needed": (Catalog, "_convert_schema_if_needed", ("schema", "format_version")),
    "Catalog._delete_old_metadata": (Catalog, "_delete_old_metadata", ("io", "base", "metadata")),
    "PyArrowFile.__init__": (arrow_io.PyArrowFile, "__init__", ("self", "location", "path", "fs", "buffer_size")),
}

check_contract(CONTRACT)

SMALL_BUFFER: Final = 64 << 10

apply_table_update: Final = update._apply_table_update  # noqa: SLF001
check_arrow_schema: Final = arrow_io._check_pyarrow_schema_compatible  # noqa: SLF001
_SET_VALUES: Final[Callable[[Record, list[Any]], None]] = Record._data.__set__  # type: ignore[attr-defined]  # noqa: SLF001


def inspected_files_schema(of: InspectTable) -> pa.Schema:
    """The columns of `files` and of the other tables of files; readable metrics have the types of the table."""
    return of._get_files_schema()  # noqa: SLF001


def append_range(scan: IncrementalAppendScan) -> tuple[int | None, int]:
    """The first snapshot (exclusive; None for the beginning) and the last one (inclusive) of a scan."""
    return scan._validate_and_resolve_snapshots()  # noqa: SLF001


def values_of(record: Record) -> list[Any]:
    """The values of a record, in order; its own list, not a copy."""
    return record._data  # noqa: SLF001


def records_of(kind: type[R], values: Iterable[Sequence[Any]]) -> list[R]:
    """New records with these values. Plans make very many, so none of them calls the constructor."""
    lists = list(map(list, values))
    made = list(map(object.__new__, repeat(kind, len(lists))))
    deque(map(_SET_VALUES, made, lists), 0)
    return made


def files_of(kind: type[F], values: Iterable[Sequence[Any]], spec_id: int) -> list[F]:
    """New files with these values, of one partition spec."""
    made = records_of(kind, values)
    deque(map(object.__setattr__, made, repeat("_spec_id"), repeat(spec_id)), 0)
    return made


class UpdateSpecV3(UpdateSpec):
    """Partition fields that were there before get their old ids back, as in Java; PyIceberg does it in version 2."""

    def _partition_field(self, transform_key: tuple[int, Transform[Any, Any]], name: str | None) -> PartitionField:
        source_id, transform = transform_key
        for spec in self._transaction.table_metadata.specs().values():
            for field in spec.fields:
                same = field.source_id == source_id and repr(field.transform) == repr(transform)
                if same and name in (None, field.name):
                    return field
        return super()._partition_field(transform_key, name)


class UpdateSchemaV3(UpdateSchema):
    """A new column may have the name of an old partition field whose own column is gone, as in Java."""

    def _apply(self) -> Schema:
        transaction, metadata = self._transaction, self._transaction.table_metadata
        columns = set(self._schema.field_ids) - self._deletes
        specs = [
            spec.model_copy(update={"fields": tuple(field for field in spec.fields if field.source_id in columns)})
            for spec in metadata.partition_specs
        ]
        shown: Any = SimpleNamespace(table_metadata=metadata.model_copy(update={"partition_specs": specs}))
        self._transaction = shown
        try:
            return super()._apply()
        finally:
            self._transaction = transaction


class TransactionSeams(Transaction):
    """PyIceberg's Transaction, with what a subclass needs under public names."""

    @property
    def target(self) -> Table:
        """The table that the transaction changes."""
        return self._table

    @property
    def commits_at_once(self) -> bool:
        return self._autocommit

    def apply(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        """Every builder of PyIceberg (schema, spec, sort order, properties, refs, expiry) hands its work in here."""
        raise NotImplementedError

    def stage(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> None:
        """The same without a commit yet; rollbacks come this way, and an `apply` of nothing follows."""
        raise NotImplementedError

    def _stage(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> Transaction:
        self.stage(updates, requirements)
        return self

    def _apply(self, updates: tuple[Any, ...], requirements: tuple[Any, ...] = ()) -> Transaction:
        self.apply(updates, requirements)
        return self


def staged_by(transaction: Transaction) -> Table:
    """The table that a transaction changes."""
    return transaction._table  # noqa: SLF001


def adopt(table: Table, response: CommitTableResponse) -> None:
    """Make a table what the catalog has committed, as `Table._do_commit` does after the catalog's answer."""
    table._check_uuid(table.metadata, response.metadata)  # noqa: SLF001
    try:
        table.catalog._delete_old_metadata(table.io, table.metadata, response.metadata)  # noqa: SLF001
    except Exception as error:  # noqa: BLE001 (the commit is done; PyIceberg warns too)
        warnings.warn(f"Failed to delete old metadata after commit: {error}", stacklevel=2)
    table.metadata, table.metadata_location = response.metadata, response.metadata_location


def with_small_buffer(file: OutputFile) -> OutputFile:
    """A local file that is written through a buffer of 64 KiB instead of PyIceberg's megabyte; any other as it is."""
    if not isinstance(file, arrow_io.PyArrowFile) or not isinstance(file._filesystem, LocalFileSystem):  # noqa: SLF001
        return file
    if file._buffer_size != arrow_io.ONE_MEGABYTE:  # noqa: SLF001
        return file  # the catalog's `buffer-size`
    return arrow_io.PyArrowFile(file.location, file._path, file._filesystem, SMALL_BUFFER)  # noqa: SLF001


def to_iceberg_schema(schema: Any) -> Schema:
    """A schema of Iceberg or Arrow as one of a version 3 table."""
    return Catalog._convert_schema_if_needed(schema, 3)  # noqa: SLF001


def dict_of(lazy: LazyDict[Any, Any]) -> dict[Any, Any]:
    """The members of a lazy dict, which is not to be used afterwards."""
    return lazy._build_dict()  # noqa: SLF001


def glue_table_input(name: str, location: str, metadata: TableMetadata) -> dict[str, Any]:
    """What Glue is told of a table; boto3 may be missing, so this is looked for when it is needed."""
    from pyiceberg.catalog import glue

    arguments = ("table_name", "metadata_location", "properties", "metadata", "glue_table", "prev_metadata_location")
    check_contract({"glue._construct_table_input": (glue, "_construct_table_input", arguments)})
    return dict(glue._construct_table_input(name, location, metadata.properties, metadata))  # noqa: SLF001
