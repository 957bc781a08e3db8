"""The rules for encrypted tables, checked on every commit of every catalog.

the key id is set when the table is created, and is never changed, added later or removed
the key length never changes
the format version is 3
a key that a snapshot, a statistics file or another key needs is never removed
a new snapshot has a key, and so has a new statistics file
no column has a type that sealberg cannot write
no transform has a width of zero, which would make every write fail
no new location is one that readers understand differently
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    SetStatisticsUpdate,
)
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.types import GeographyType, GeometryType

from sealberg.errors import ConfigError, KeyringError, PlaintextFileError, UnsupportedError
from sealberg.files.avro import data_file as avro
from sealberg.files.parquet import writer as parquet
from sealberg.keys.file_key import KEY_LENGTH_PROPERTY
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata import manifest_codec
from sealberg.metadata.statistics import statistics_files, statistics_key_id
from sealberg.metadata.storage_properties import check_given
from sealberg.metadata.table_places import check_location, check_paths, check_places
from sealberg.metadata.updates import added_keys, removed_keys
from sealberg.properties.known import RETRY
from sealberg.properties.table_names import check_values, value_of
from sealberg.properties.values import COUNT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField
    from pyiceberg.table.update import TableUpdate

    from sealberg.keys.keyring import Keyring
    from sealberg.metadata.table_metadata import V3TableMetadata

RESERVED: Final = frozenset(
    {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
)
VERSION_PROPERTY: Final = "format-version"
ENCRYPTION_PREFIX: Final = "encryption."
ENCRYPTION_PROPERTIES: Final = (KEY_ID_PROPERTY, KEY_LENGTH_PROPERTY)
PLAINTEXT: Final = (
    f"Cannot set {KEY_ID_PROPERTY} or {KEY_LENGTH_PROPERTY} of a plaintext table: its files are not encrypted. "
    f"Create a new table with {KEY_ID_PROPERTY} and copy the rows"
)


# Java refuses a new table with a number below zero, and takes it for zero where ALTER TABLE has set it.
RETRY_PROPERTIES: Final = frozenset(f"commit.retry.{name}" for name in RETRY)
PARTITION_LIMIT: Final = "write.summary.partition-limit"
COLUMN_METRICS: Final = "write.metadata.metrics.column."
# Codecs with their levels: one property decides which values another may have.
READERS: Final[Mapping[str, Callable[[Mapping[str, str]], object]]] = {
    "write.parquet.compression": parquet.write_options,
    "write.avro.": avro.write_options,
    manifest_codec.CODEC: manifest_codec.manifest_codec,
}
# PyIceberg writes the metadata of tables of version 1 and 2, and its reader of Avro codecs knows these.
AVRO_CODEC: Final = "write.avro.compression-codec"
PYICEBERG_ONLY: Final = frozenset((AVRO_CODEC, codec) for codec in ("null", "deflate", "bzip2", "zstandard"))


def format_version(properties: Mapping[str, str], default: int) -> int:
    """The format version of a new table; an encrypted table must have version 3. Messages are Java's."""
    check_given(properties)
    check_names(properties)
    check_readable(properties, properties, by_pyiceberg=True)
    for name in sorted(RETRY_PROPERTIES & properties.keys()):
        COUNT.of(name, properties[name])
    given = [name for name in ENCRYPTION_PROPERTIES if name in properties]
    version = int(properties.get(VERSION_PROPERTY, 3 if KEY_ID_PROPERTY in properties else default))
    if version not in (1, 2, 3):
        raise ConfigError(f"Unsupported format version: v{version}")
    if version == 3:
        check_readable(properties, properties)
    if given and version < 3:
        raise ConfigError(f"Invalid properties for v{version}: [{', '.join(given)}]")
    if KEY_ID_PROPERTY in properties and not properties[KEY_ID_PROPERTY]:
        raise ConfigError(f"{KEY_ID_PROPERTY} is empty, expected the id of a master key")
    if given and KEY_ID_PROPERTY not in properties:
        raise ConfigError(
            f"{', '.join(given)} is set but {KEY_ID_PROPERTY} is not, so the table would be plaintext; "
            f"set {KEY_ID_PROPERTY} too"
        )
    return version


def check_names(properties: Iterable[str], namespace: str | None = None) -> None:
    """Refuse an unknown property with the prefix `encryption.`: a table with a misspelt key id would be plaintext."""
    known = ENCRYPTION_PROPERTIES if namespace is None else (KEY_ID_PROPERTY,)
    unknown = sorted(name for name in properties if _about_encryption(name) and name not in known)
    if unknown and namespace is not None:
        raise ConfigError(
            f"{namespace} has {', '.join(unknown)}, which is not a property of namespaces; the only encryption "
            f"property of namespaces is {KEY_ID_PROPERTY}, all others belong in the configuration of the catalog"
        )
    if unknown:
        raise ConfigError(
            f"{', '.join(unknown)} is not a property of tables; the encryption properties of tables are "
            f"{', '.join(ENCRYPTION_PROPERTIES)}, all others belong in the configuration of the catalog"
        )


def check_readable(given: Iterable[str], properties: Mapping[str, str], *, by_pyiceberg: bool = False) -> None:
    """Refuse new values that the code which reads them would refuse.

    Args:
        given: the names that are new or have another value; what was there before is not looked at.
        properties: all properties of the table after the change.
        by_pyiceberg: whether PyIceberg writes the table, which knows names of codecs of its own.
    """
    names = {name for name in given if isinstance(properties[name], str)}
    check_values({name: properties[name] for name in names})
    if PARTITION_LIMIT in names and KEY_ID_PROPERTY in properties and value_of(properties, PARTITION_LIMIT, 0) > 0:
        raise ConfigError(
            f"{PARTITION_LIMIT} is {properties[PARTITION_LIMIT]} for an encrypted table, expected 0: summaries of "
            "snapshots would show partition values, and metadata.json is not encrypted. The counts of each partition "
            "are in table.inspect.partitions()"
        )
    for prefix, read in READERS.items():
        if any(
            name.startswith(prefix) and not (by_pyiceberg and (name, properties[name]) in PYICEBERG_ONLY)
            for name in names
        ):
            read({name: value for name, value in properties.items() if name.startswith(prefix)})


def _about_encryption(name: str) -> bool:
    return str(name).strip().lower().startswith(ENCRYPTION_PREFIX)  # str: the catalog refuses None as a name


def refuse_plaintext(table: str, metadata: TableMetadata) -> None:
    """Refuse a plaintext table that has an encryption property: its owner believes that the table is encrypted."""
    if found := sorted(filter(_about_encryption, metadata.properties)):
        raise PlaintextFileError(
            f"table {table} is not encrypted (format version {metadata.format_version}) but has the "
            f"propert{'y' if len(found) == 1 else 'ies'} {', '.join(found)}, so it is neither read nor written: "
            "another tool created it, or the name is misspelt. Remove the property with PyIceberg "
            "(pyiceberg.catalog.load_catalog, table.transaction().remove_properties) to use the table as plaintext; to "
            f"encrypt its rows, copy them into a new table that sealberg creates with {KEY_ID_PROPERTY}"
        )


def check_same_key(table: str, metadata: TableMetadata, properties: Mapping[str, str]) -> None:
    """Refuse an existing table whose key id differs from the key id in `properties`."""
    wanted, found = properties.get(KEY_ID_PROPERTY), metadata.properties.get(KEY_ID_PROPERTY)
    if wanted is not None and wanted != found:
        raise ConfigError(
            f"table {table} exists, and its {KEY_ID_PROPERTY} is {found}, not {wanted}"
            if found is not None
            else f"table {table} exists and is not encrypted: {KEY_ID_PROPERTY}={wanted} cannot be set on it"
        )


def check_change(before: V3TableMetadata, after: V3TableMetadata) -> None:
    """Refuse metadata that break a rule of the module docstring."""
    given = [name for name, value in after.properties.items() if before.properties.get(name) != value]
    check_given(given)
    check_names(given)
    check_readable(given, after.properties)
    check_metrics(given, after.schema())
    check_places(after, before)
    old, new = before.properties.get(KEY_ID_PROPERTY), after.properties.get(KEY_ID_PROPERTY)
    if old is not None and new is None:
        raise ConfigError("Cannot remove key ID from an encrypted table")
    if old is None and (new is not None or KEY_LENGTH_PROPERTY in given):
        raise ConfigError(PLAINTEXT)
    if old != new:
        raise ConfigError("Cannot modify key ID of an encrypted table")
    if old is not None and before.properties.get(KEY_LENGTH_PROPERTY) != after.properties.get(KEY_LENGTH_PROPERTY):
        raise ConfigError(f"Cannot modify {KEY_LENGTH_PROPERTY} of an encrypted table")
    if before.table_uuid != after.table_uuid:
        raise ConfigError(f"Cannot reassign uuid of a table: {before.table_uuid}")
    known = {schema.schema_id for schema in before.schemas}
    for schema in after.schemas:
        if schema.schema_id not in known:
            check_types(schema)
    specs, orders = ({spec.spec_id for spec in before.partition_specs}, {each.order_id for each in before.sort_orders})
    check_transforms(field for spec in after.partition_specs if spec.spec_id not in specs for field in spec.fields)
    check_transforms(field for order in after.sort_orders if order.order_id not in orders for field in order.fields)
    check_keys(after)
    _check_new_snapshots(before, after)
    _check_statistics(before, after)


def check_plain_updates(before: TableMetadata | None, updates: Iterable[TableUpdate]) -> None:
    """The rules for tables of version 1 and 2: PyIceberg writes them, and they are never encrypted."""
    for update in updates:
        given = update.updates if isinstance(update, SetPropertiesUpdate) else {}
        check_given(given)
        check_names(given)
        check_readable(given, {**(before.properties if before is not None else {}), **given}, by_pyiceberg=True)
        check_paths(given, before.properties if before is not None else {})
        if isinstance(update, SetLocationUpdate):
            check_location(update.location, before.location if before is not None else None)
        found = [name for name in ENCRYPTION_PROPERTIES if name in given]
        if found and before is None:
            raise ConfigError(f"Invalid properties for v2: [{', '.join(found)}]")
        if found:
            raise ConfigError(PLAINTEXT)


def check_base(current: V3TableMetadata, updates: Iterable[TableUpdate]) -> None:
    """Refuse updates that were made for metadata that another commit has changed since.

    The requirements of a commit check its own branch only. A commit to another branch also advances the sequence
    number and the row ids, and a concurrent commit may have set a ref to a snapshot that this commit expires.
    """
    first = next((update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)), None)
    if first is not None and (
        (first.sequence_number or 0) <= current.last_sequence_number or (first.first_row_id or 0) < current.next_row_id
    ):
        raise CommitFailedException(
            f"snapshot {first.snapshot_id} was made for sequence number {first.sequence_number} and row id "
            f"{first.first_row_id}, but the table is already at {current.last_sequence_number} and "
            f"{current.next_row_id}: another writer committed first"
        )
    _check_statistics_base(current, updates)
    expired = {each for update in updates if isinstance(update, RemoveSnapshotsUpdate) for each in update.snapshot_ids}
    let_go = {
        update.ref_name for update in updates if isinstance(update, RemoveSnapshotRefUpdate | SetSnapshotRefUpdate)
    }
    for name, ref in current.refs.items():
        if ref.snapshot_id in expired and name not in let_go:
            raise ValidationException(f"Cannot expire {ref.snapshot_id}. Still referenced by refs: [{name}]")


def _check_statistics_base(current: V3TableMetadata, updates: Iterable[TableUpdate]) -> None:
    """Refuse a statistics file whose snapshot or KEK is gone: no requirement of a commit covers either."""
    added = {update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)}
    known = added | {snapshot.snapshot_id for snapshot in current.snapshots}
    for update in updates:
        if isinstance(update, SetStatisticsUpdate | SetPartitionStatisticsUpdate):
            file = update.statistics if isinstance(update, SetStatisticsUpdate) else update.partition_statistics
            number = file.snapshot_id
            if number not in known:
                raise CommitFailedException(f"the snapshot {number} of a statistics file is not in the table")
            is_table = isinstance(update, SetStatisticsUpdate)
            files: Iterable[Any] = current.statistics if is_table else current.partition_statistics
            replaced = {statistics_key_id(current.encryption_keys, old) for old in files if old.snapshot_id == number}
            if replaced - {None} - removed_keys(updates):
                raise CommitFailedException(f"another writer has added statistics of snapshot {number} meanwhile")
    keys = added_keys(updates)
    own = {key.key_id for key in keys}
    for key in keys:
        found = key.encrypted_by_id in own or key.encrypted_by_id in current.encryption_keys
        if key.timestamp is None and not found:
            raise CommitFailedException(f"another writer has removed the KEK {key.encrypted_by_id} of the new key")


def check_types(schema: Schema) -> None:
    """Refuse columns that cannot be written, or that have the name of a metadata column."""
    for field in schema.fields:
        if field.name.lower() in RESERVED:
            raise UnsupportedError(f"column {field.name} has the name of a metadata column of Iceberg: choose another")
    for field_id in schema.field_ids:
        kind = schema.find_type(field_id)
        if isinstance(kind, GeometryType | GeographyType):
            raise UnsupportedError(
                f"column {schema.find_column_name(field_id)} has the type {kind}, which cannot be written"
            )


def check_metrics(given: Iterable[str], schema: Schema) -> None:
    """Refuse metrics of a column that is not there, as Java does: nobody would obey the misspelt name."""
    for column in (name.removeprefix(COLUMN_METRICS) for name in given if name.startswith(COLUMN_METRICS)):
        try:
            schema.find_field(column)
        except ValueError:
            known = ", ".join(schema.column_names)
            raise ConfigError(f"{COLUMN_METRICS}{column}: the table has no column {column!r}; it has {known}") from None


def check_transforms(fields: Iterable[PartitionField | SortField]) -> None:
    """Refuse a bucket or truncate transform without a positive width, with Java's messages."""
    for field in fields:
        transform = field.transform
        if isinstance(transform, BucketTransform) and transform.num_buckets < 1:
            raise ConfigError(f"Invalid number of buckets: {transform.num_buckets} (must be > 0)")
        if isinstance(transform, TruncateTransform) and transform.width < 1:
            raise ConfigError(f"Invalid truncate width: {transform.width} (must be > 0)")


def check_keys(metadata: V3TableMetadata) -> None:
    """Refuse metadata of an encrypted table in which the key or KEK of a snapshot or statistics file is missing."""
    if KEY_ID_PROPERTY not in metadata.properties:
        return
    for snapshot in metadata.snapshots:
        # Without a key-id: a plaintext manifest list of another writer, which is refused when it is read.
        _check_key(metadata.encryption_keys, _key_id(snapshot), f"snapshot {snapshot.snapshot_id}")
    for file in statistics_files(metadata):
        key_id = statistics_key_id(metadata.encryption_keys, file)
        _check_key(metadata.encryption_keys, key_id, f"statistics file {file.statistics_path}")


def _check_key(ring: Keyring, key_id: str | None, owner: str) -> None:
    if key_id is None:
        return
    entry = ring.get(key_id)
    if entry is None:
        raise KeyringError(f"commit refused: {owner} would lose its key {key_id}, which is not in encryption-keys")
    if entry.encrypted_by_id not in ring:
        raise KeyringError(
            f"commit refused: {owner} would lose its KEK {entry.encrypted_by_id}, which is not in encryption-keys"
        )


def _check_new_snapshots(before: V3TableMetadata, after: V3TableMetadata) -> None:
    if KEY_ID_PROPERTY not in after.properties:
        return
    known = {snapshot.snapshot_id for snapshot in before.snapshots}
    for snapshot in after.snapshots:
        if snapshot.snapshot_id not in known and _key_id(snapshot) is None:
            raise PlaintextFileError(
                f"commit refused: snapshot {snapshot.snapshot_id} has no key-id, so its manifest list "
                f"{snapshot.manifest_list!s} is not encrypted, but the table is"
            )


def _check_statistics(before: V3TableMetadata, after: V3TableMetadata) -> None:
    if KEY_ID_PROPERTY not in after.properties:
        return
    known = {file.statistics_path: statistics_key_id(before.encryption_keys, file) for file in statistics_files(before)}
    for file in statistics_files(after):
        path = file.statistics_path
        if statistics_key_id(after.encryption_keys, file) is not None or (path in known and known[path] is None):
            continue  # the second: plaintext of another writer, which stays until somebody removes it
        if path in known:
            _check_key(after.encryption_keys, known[path], f"statistics file {path}")
        else:
            raise PlaintextFileError(
                f"commit refused: the statistics file {file.statistics_path} has no key, so the file is not "
                "encrypted, but the table is; `sealberg stats` writes encrypted statistics"
            )


def _key_id(snapshot: object) -> str | None:
    # A user's update may hold a snapshot of PyIceberg's class, which has no key_id.
    return getattr(snapshot, "key_id", None)
