"""Shared by all catalogs with encrypted tables: one KMS client, one cache of KEKs, and tables that use them.

NewTable           what `create_table` was asked for
EncryptedCatalog   a mixin before one of PyIceberg's catalogs
first_metadata     the metadata of a new version 3 table
changed            the metadata after updates, checked against `metadata.invariants`
response           the return value of `commit_table`
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, TableAlreadyExistsError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import CommitTableResponse, TableProperties
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder, assign_fresh_sort_order_ids
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.typedef import EMPTY_DICT

from sealberg.catalogs.name_swap import NameSwap
from sealberg.catalogs.warehouse import WAREHOUSE, absolute
from sealberg.errors import ConfigError
from sealberg.files.confined_io import ConfinedFileIO, stores
from sealberg.keys.kek_cache import KekCache
from sealberg.keys.kms.client import KMS_IMPL, KMS_TYPE, client_from_properties
from sealberg.keys.manager import KEY_ID_PROPERTY, EncryptionManager, EncryptionSettings
from sealberg.keys.per_process import PerProcess
from sealberg.metadata import clock
from sealberg.metadata.gc_pause import gc_paused
from sealberg.metadata.invariants import (
    VERSION_PROPERTY,
    check_base,
    check_change,
    check_metrics,
    check_names,
    check_same_key,
    check_transforms,
    check_types,
    format_version,
)
from sealberg.metadata.storage_properties import for_file_io, warn_of
from sealberg.metadata.table_metadata import FORMAT_VERSION, V3Snapshot, V3TableMetadata, new_metadata
from sealberg.metadata.table_places import check_paths, without_consent
from sealberg.metadata.updates import applied, usable
from sealberg.metadata.version_upgrade import asked_version, refuse_other_version
from sealberg.properties.table_names import value_of
from sealberg.pyiceberg_private import to_iceberg_schema
from sealberg.table.catalog_table import CatalogTable, TransactionalCatalog
from sealberg.table.old_metadata import delete_old_metadata
from sealberg.table.policy import EncryptionPolicy
from sealberg.write.commit_outcome import CommitAttempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pyarrow as pa
    from pyiceberg.catalog import PropertiesUpdateSummary
    from pyiceberg.io import FileIO
    from pyiceberg.table import CreateTableTransaction, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier, Properties

    from sealberg.keys.keyring import EncryptedKey
    from sealberg.keys.kms.client import KmsClient

_log: Final = logging.getLogger(__name__)

Name = tuple[str, str]  # the namespace, joined with dots, and the table


class CreatedMeanwhileError(TableAlreadyExistsError, CommitFailedException):
    """Another process has created the table first. PyIceberg raises CommitFailedException here, Java AlreadyExists."""


@dataclass(frozen=True)
class NewTable:
    """The arguments of `create_table`, with all properties that the table will have."""

    identifier: str | Identifier
    schema: Schema | pa.Schema
    location: str | None
    spec: PartitionSpec
    order: SortOrder
    properties: Properties
    wanted: bool = False  # the location, even if it holds files

    @property
    def is_v3(self) -> bool:
        return format_version(self.properties, TableProperties.DEFAULT_FORMAT_VERSION) >= FORMAT_VERSION

    @property
    def arguments(self) -> tuple[Any, ...]:
        """In the order of PyIceberg's `create_table`."""
        return self.identifier, self.schema, self.location, self.spec, self.order, self.properties

    def metadata(self, location: str) -> V3TableMetadata:
        return first_metadata(self.schema, location, self.spec, self.order, self.properties)


class EncryptedCatalog(TransactionalCatalog):
    """One KMS client and one cache of KEKs for all tables of a catalog."""

    def __init__(self, name: str, *clients: object, **properties: str) -> None:
        # From the operator's own properties only, before a REST server adds to them.
        self.policy = EncryptionPolicy.of(properties)
        if isinstance(self, MetastoreCatalog) and isinstance(properties.get(WAREHOUSE), str):
            properties[WAREHOUSE] = absolute(properties[WAREHOUSE])  # a REST server's may be a name
        super().__init__(name, *clients, **properties)  # Glue's takes a client of boto3
        self._kms: KmsClient | None = None
        self._keks = KekCache()
        self._once = PerProcess(threading.Lock)

    @property
    def _own_properties(self) -> Mapping[str, str]:
        """The properties that configure the KMS client."""
        return self.properties

    def _encryption(self, name: Name, metadata: V3TableMetadata) -> EncryptionManager | None:
        if KEY_ID_PROPERTY not in metadata.properties:
            return None
        own = self._own_properties
        settings = EncryptionSettings.from_properties(dotted(name), metadata.properties, own)
        with self._once.here():
            if self._kms is None and (KMS_TYPE in own or KMS_IMPL in own):
                # One client and one cache for all tables. Without a KMS a table still loads, but its files do not open.
                self._kms = client_from_properties(own)
                self._keks = KekCache(settings.cache_ttl_s)
        return EncryptionManager(settings, kms=self._kms, cache=self._keks)

    def encryption_of(self, identifier: str | Identifier, metadata: V3TableMetadata) -> EncryptionManager:
        """What makes and opens the keys of a table with these metadata, which this catalog need not have yet."""
        *namespace, table = Catalog.identifier_to_tuple(identifier)
        manager = self._encryption((".".join(namespace), table), metadata)
        if manager is None:
            raise ConfigError(f"table {'.'.join(namespace)}.{table} has no {KEY_ID_PROPERTY}, expected a key id")
        return manager

    def _properties_of_new(self, identifier: str | Identifier, given: Properties) -> dict[str, str]:
        """The properties of a new table: its creator's and the configuration's; refused if the policy forbids it."""
        name = Catalog.identifier_to_tuple(identifier)
        checked = SetPropertiesUpdate(updates=given).updates  # PyIceberg's own check: no None
        check_names(checked)
        properties = self.policy.properties_of_new(name, checked, self._namespace_key_id)
        self.policy.admit(name, properties)
        own = self._own_properties
        if KEY_ID_PROPERTY not in properties and (KMS_TYPE in own or KMS_IMPL in own):
            _log.warning(
                "the new table %s is not encrypted: neither its properties nor those of its namespace have %s, and the "
                "catalog has a KMS. Set it, or encryption.default-key-id in the catalog's configuration; "
                "encryption.required=true refuses such tables",
                ".".join(name),
                KEY_ID_PROPERTY,
            )
        return properties

    def _namespace_key_id(self, namespace: Identifier) -> str | None:
        """The `encryption.key-id` property of a namespace, the key of its new tables."""
        try:
            properties = self.load_namespace_properties(namespace)
        except NoSuchNamespaceError:
            return None
        check_names(properties, f"the namespace {'.'.join(namespace)}")
        return properties.get(KEY_ID_PROPERTY)

    def _admit_renamed(self, old: str | Identifier, new: str | Identifier) -> None:
        """Refuse a new name for which the policy requires encryption, or another key than the table has."""
        name = Catalog.identifier_to_tuple(new)
        if self.policy.speaks_of(name):
            self.policy.admit(name, self.load_table(old).metadata.properties)

    def swap_tables(
        self, first: str | Identifier, second: str | Identifier, *, unchanged: Iterable[Table] = ()
    ) -> None:
        """Exchange the names of two tables: in one transaction in SQL catalogs, by three renames in all others.

        Where there are renames, a process that dies leaves a name without a table; a repetition goes on from there.

        Args:
            first, second: the two names.
            unchanged: tables as they were loaded; CommitFailedException, and the names stay, if another process has
                changed one of them since.

        Raises:
            UnfinishedSwapError: a rename failed after an earlier one had succeeded; the message says which.
            UnsupportedError: the catalog cannot rename tables.
        """
        a, b = Catalog.identifier_to_tuple(first), Catalog.identifier_to_tuple(second)
        if a == b:
            raise ConfigError(f"cannot exchange the name {'.'.join(a)} with itself, expected two tables")
        self._swap_names(a, b, {table.name(): table.metadata_location for table in unchanged})

    def is_swap_begun(self, first: str | Identifier, second: str | Identifier) -> bool:
        """Whether a killed process has exchanged these names in part; `finish_swap` does the rest."""
        return self._name_swap(Catalog.identifier_to_tuple(first), Catalog.identifier_to_tuple(second), {}).is_begun()

    def finish_swap(self, first: str | Identifier, second: str | Identifier) -> bool:
        """Finish an exchange of these names that a killed process began; False if there is none."""
        return self._name_swap(Catalog.identifier_to_tuple(first), Catalog.identifier_to_tuple(second), {}).finish()

    def _swap_names(self, first: Identifier, second: Identifier, unchanged: Mapping[Identifier, str]) -> None:
        self._name_swap(first, second, unchanged).run()

    def _name_swap(self, first: Identifier, second: Identifier, unchanged: Mapping[Identifier, str]) -> NameSwap:
        return NameSwap.of(self, first, second, unchanged)

    def admit_swapped(self, first: Identifier, second: Identifier, *between: Identifier) -> None:
        """Refuse an exchange of names if the policy refuses one of the tables under a name that it will have."""
        if any(map(self.policy.speaks_of, (first, second, *between))):
            one, two = self.load_table(first).metadata.properties, self.load_table(second).metadata.properties
            for name, properties in ((first, two), (second, one), *((name, one) for name in between)):
                self.policy.admit(name, properties)

    def _first_kek(self, name: Name, metadata: V3TableMetadata) -> EncryptedKey | None:
        """The first KEK of a new encrypted table; fails if the KMS does not know the key id."""
        encryption = self._encryption(name, metadata)
        if encryption is None:
            return None
        try:
            return encryption.new_kek()
        except ConfigError as error:
            key_id = metadata.properties[KEY_ID_PROPERTY]
            raise ConfigError(f"table {dotted(name)} cannot be created under the key {key_id}: {error}") from error

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        self._check_namespace_properties(namespace, properties)
        super().create_namespace(namespace, properties)  # type: ignore[safe-super]  # PyIceberg's catalog comes next

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        self._check_namespace_properties(namespace, updates)
        return super().update_namespace_properties(namespace, removals, updates)  # type: ignore[safe-super]

    @staticmethod
    def _check_namespace_properties(namespace: str | Identifier, properties: Properties) -> None:
        name = namespace if isinstance(namespace, str) else ".".join(namespace)
        check_names(properties, f"the namespace {name}")
        if KEY_ID_PROPERTY in properties and not properties[KEY_ID_PROPERTY]:
            raise ConfigError(f"the property {KEY_ID_PROPERTY} of the namespace {name} is empty, expected a key id")

    # -- commit -------------------------------------------------------------------------------

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """PyIceberg's commit of a table of any format version."""
        return self.commit(table, requirements, updates, CommitAttempt())

    # -- new tables ---------------------------------------------------------------------------

    @property
    def _plain(self) -> Any:
        """PyIceberg's own catalog, for tables of version 1 and 2."""
        return super()

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        new = self._new_table(identifier, schema, location, partition_spec, sort_order, properties)
        return self._create_v3(new) if new.is_v3 else self._create_plain(new)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        new = self._new_table(identifier, schema, location, partition_spec, sort_order, properties)
        plain = self._plain.create_table_transaction
        made = self._create_v3_transaction(new) if new.is_v3 else plain(*new.arguments)
        # PyIceberg's class cannot write version 3. Ours has the same methods, and this type for type checkers.
        return cast("CreateTableTransaction", made)

    def _new_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Properties,
    ) -> NewTable:
        kept, wanted = without_consent(self._properties_of_new(identifier, properties))
        new = NewTable(identifier, schema, location, spec, order, kept, wanted)
        format_version(kept, TableProperties.DEFAULT_FORMAT_VERSION)  # wrong properties before any request
        check_paths(kept)
        return replace(new, location=self._place(new))

    @abstractmethod
    def _place(self, new: NewTable) -> str | None:
        """The location of a new table, checked; None if the server will choose it."""

    def _create_plain(self, new: NewTable) -> Table:
        made: Table = self._plain.create_table(*new.arguments)
        return made

    @abstractmethod
    def _create_v3(self, new: NewTable) -> Table:
        """Create a table of version 3."""

    @abstractmethod
    def _create_v3_transaction(self, new: NewTable) -> Transaction:
        """A transaction whose commit creates a table of version 3."""

    def create_table_if_not_exists(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        """As PyIceberg's, but an existing table must have the key that the properties name."""
        about = (schema, location, partition_spec, sort_order, properties)
        table = super().create_table_if_not_exists(identifier, *about)
        check_same_key(".".join(table.name()), table.metadata, properties)
        return table

    def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        """Make the FileIO of a table; PyIceberg's own methods call this too. `properties` are the table's."""
        inner = super()._load_file_io(for_file_io(self.properties, properties), location)
        return ConfinedFileIO(inner, stores(self.properties, location))

    def _table(self, name: Name, metadata: V3TableMetadata, location: str) -> CatalogTable:
        warn_of(dotted(name), self.properties, metadata.properties)
        self.policy.check_expected(to_identifier(name), metadata)
        inner = self._load_file_io(metadata.properties, location)
        return CatalogTable(to_identifier(name), metadata, location, inner, self, self._encryption(name, metadata))

    def _delete_old_metadata(self, io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:  # type: ignore[override]
        """PyIceberg calls this after a commit, and so does `adopt`."""
        delete_old_metadata(io, base, metadata, self._current_of_any)

    def _current_of_any(self, locations: Iterable[str]) -> Iterable[str]:  # noqa: ARG002
        """Those of the metadata files that are the current one of a table, where the catalog can be asked at once."""
        return ()

    def close(self) -> None:
        with self._once.here():
            self._keks.close()
            if self._kms is not None:
                self._kms.close()
                self._kms = None
        super().close()


def first_metadata(
    schema: Schema | pa.Schema, location: str, spec: PartitionSpec, order: SortOrder, properties: Properties
) -> V3TableMetadata:
    """The metadata of a new table, with fresh ids; refuses types that cannot be written."""
    given = to_iceberg_schema(schema)
    given.check_format_version_compatibility(3)
    check_types(given)
    check_metrics(properties, given)
    check_transforms([*spec.fields, *order.fields])
    fresh = assign_fresh_schema_ids(given)
    return new_metadata(
        schema=fresh,
        spec=assign_fresh_partition_spec_ids(spec, given, fresh),
        sort_order=assign_fresh_sort_order_ids(order, given, fresh),
        location=location,
        properties={name: value for name, value in properties.items() if name != VERSION_PROPERTY},
    )


@gc_paused()  # a long history is many objects, none of which is garbage
def changed(
    current: CatalogTable, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
) -> V3TableMetadata:
    """The metadata after these updates; refuses updates that break an invariant."""
    for requirement in requirements:
        requirement.validate(current.metadata)
    updates, version = asked_version(updates)
    if version is not None:
        refuse_other_version(current.metadata.format_version, version)
    check_base(current.metadata, updates)
    after = applied(current.metadata, updates, metadata_location=current.metadata_location)
    assert isinstance(after, V3TableMetadata)
    properties = usable(current.metadata.properties, updates)
    value_of(properties, TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED, None)  # too late after the commit
    allowed = clock.max_skew_ms(current.catalog.properties, properties)
    after = clock.in_order(current.metadata, after, allowed)
    check_change(current.metadata, after)
    # A caller may have built a snapshot of PyIceberg's class, whose reader does not know keys.
    snapshots = [
        each if isinstance(each, V3Snapshot) else V3Snapshot.model_validate(each.model_dump(by_alias=True))
        for each in after.snapshots
    ]
    return after.model_copy(update={"snapshots": snapshots})


def response(metadata: V3TableMetadata, location: str) -> CommitTableResponse:
    return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


def dotted(name: Name) -> str:
    """The name joined with a dot."""
    return f"{name[0]}.{name[1]}"


def to_identifier(name: Name) -> Identifier:
    return (*Catalog.identifier_to_tuple(name[0]), name[1])
