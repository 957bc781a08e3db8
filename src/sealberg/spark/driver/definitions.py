"""CREATE and REPLACE TABLE: the definition of a table as Spark gives it, checked, and as updates of an old table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import ResolveError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, promote
from pyiceberg.table import TableProperties
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, UNSORTED_SORT_ORDER_ID
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.types import ListType, MapType, PrimitiveType, StructType

from sealberg.errors import ConfigError, UnsupportedError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import PLAINTEXT
from sealberg.properties.table_names import check_table_properties
from sealberg.spark.driver.descriptions import PROVIDER
from sealberg.spark.driver.partitions import partition_spec
from sealberg.spark.types import iceberg_schema
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.types import IcebergType, NestedField

    from sealberg.metadata.table_metadata import V3TableMetadata
    from sealberg.spark.protocol.tables import TableDefinition
    from sealberg.table.transaction import EncryptedTransaction

PROVIDERS: Final = (PROVIDER, "sealberg")
FILE_FORMATS: Final = ("parquet", "avro")
FORMAT: Final = TableProperties.WRITE_FILE_FORMAT
NOT_KEPT: Final = ("provider", "owner", "location", "external", "is_managed_location", "table_type")


@dataclass(frozen=True)
class CheckedDefinition:
    """The definition of a table, in Iceberg's types."""

    name: tuple[str, ...]
    schema: Schema
    spec: PartitionSpec
    location: str | None
    properties: dict[str, str]

    @classmethod
    def of(cls, definition: TableDefinition) -> CheckedDefinition:
        given = definition.properties
        provider = given.get("provider")
        if provider is not None and provider.lower() not in (*PROVIDERS, *FILE_FORMATS):
            raise ConfigError(
                f"USING {provider}: the tables of this catalog are Iceberg tables, with {' or '.join(FILE_FORMATS)} "
                "files; leave USING out"
            )
        # As in Iceberg Java, USING parquet names the format of the files. Spark adds it to saveAsTable by itself.
        form = {FORMAT: provider.lower()} if provider is not None and provider.lower() in FILE_FORMATS else {}
        named = {name: value for name, value in given.items() if "option." not in name}
        check_table_properties(".".join(definition.table), named)
        schema = iceberg_schema(definition.schema)
        if not all(definition.table):
            raise ConfigError(f"a table needs a name, found {'.'.join(definition.table)!r}")
        return cls(
            definition.table,
            schema,
            partition_spec(definition.partitions, schema),
            given.get("location"),
            {
                # Version 3 for all tables: Spark writes no others.
                "format-version": "3",
                **form,
                **{name: value for name, value in given.items() if name not in NOT_KEPT and "option." not in name},
            },
        )


@dataclass
class FreshIds:
    """The ids of the columns of a replaced table: a column that keeps its full name keeps its id, as in Java.

    Unlike in Java, it gets a new one if ALTER TABLE could not give it its new type: the snapshots of before would have
    partitions and bounds of another type under the same id, and could not be read any more.
    """

    former: dict[str, tuple[int, IcebergType]]
    last_column_id: int
    partition_ids: dict[tuple[int, str], int]
    last_partition_id: int
    given: dict[int, int] = field(default_factory=dict)  # the new id of each id of the definition

    @classmethod
    def over(cls, metadata: V3TableMetadata) -> FreshIds:
        now = metadata.schema()
        former = {str(now.find_column_name(each)): (each, now.find_type(each)) for each in now.field_ids}
        known: dict[tuple[int, str], int] = {}
        for each in (each for spec in metadata.partition_specs for each in spec.fields):
            key = (each.source_id, str(each.transform))
            known[key] = max(each.field_id, known.get(key, 0))
        return cls(former, metadata.last_column_id, known, metadata.last_partition_id or 999)

    def schema(self, wanted: Schema) -> Schema:
        return Schema(*self._fields(wanted.fields, ""))

    def partition_fields(self, wanted: PartitionSpec) -> tuple[PartitionField, ...]:
        return tuple(self._partition_field(each) for each in wanted.fields)

    def _partition_field(self, wanted: PartitionField) -> PartitionField:
        key = (self.given[wanted.source_id], str(wanted.transform))
        if key not in self.partition_ids:
            self.last_partition_id += 1
            self.partition_ids[key] = self.last_partition_id
        return PartitionField(key[0], self.partition_ids[key], wanted.transform, wanted.name)

    def _fields(self, fields: Iterable[NestedField], above: str) -> list[NestedField]:
        # As in Java, the columns of one level get their ids before those inside of them.
        ids = [self._id(each.field_id, above + each.name, each.field_type) for each in fields]
        return [
            each.model_copy(update={"field_id": new, "field_type": self._type(each.field_type, above + each.name)})
            for each, new in zip(fields, ids, strict=True)
        ]

    def _type(self, kind: IcebergType, name: str) -> IcebergType:
        match kind:
            case StructType():
                return StructType(*self._fields(kind.fields, f"{name}."))
            case ListType():
                element = self._id(kind.element_id, f"{name}.element", kind.element_type)
                made = self._type(kind.element_type, f"{name}.element")
                return ListType(element_id=element, element=made, element_required=kind.element_required)
            case MapType():
                key = self._id(kind.key_id, f"{name}.key", kind.key_type)
                value = self._id(kind.value_id, f"{name}.value", kind.value_type)
                return MapType(
                    key_id=key,
                    key_type=self._type(kind.key_type, f"{name}.key"),
                    value_id=value,
                    value_type=self._type(kind.value_type, f"{name}.value"),
                    value_required=kind.value_required,
                )
        return kind

    def _id(self, old: int, name: str, kind: IcebergType) -> int:
        former = self.former.get(name)
        if former is None or not _becomes(former[1], kind):
            self.last_column_id += 1
            self.given[old] = self.last_column_id
        else:
            self.given[old] = former[0]
        return self.given[old]


def _becomes(one: IcebergType, other: IcebergType) -> bool:
    """Whether a column may change its type from one to the other."""
    if isinstance(one, PrimitiveType) and isinstance(other, PrimitiveType):
        try:
            return one == other or bool(promote(one, other) == other)
        except ResolveError:
            return False
    return type(one) is type(other)


def _same_columns(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and set(one.identifier_field_ids) == set(other.identifier_field_ids)


def replacement(table: Table, definition: CheckedDefinition) -> EncryptedTransaction:
    """A transaction that gives the table new columns and partitions; its history, key id and properties stay."""
    if not isinstance(table, CatalogTable):
        raise UnsupportedError("tables of format version 1 and 2 are not written from Spark")
    metadata = table.metadata
    given = {name: value for name, value in definition.properties.items() if name != "format-version"}
    if given.get(KEY_ID_PROPERTY, metadata.properties.get(KEY_ID_PROPERTY)) != metadata.properties.get(KEY_ID_PROPERTY):
        sealed = KEY_ID_PROPERTY in metadata.properties
        raise ConfigError("Cannot modify key ID of an encrypted table" if sealed else PLAINTEXT)
    fresh = FreshIds.over(metadata)
    schema = fresh.schema(definition.schema)
    schema_id = next((each.schema_id for each in metadata.schemas if _same_columns(each, schema)), None)
    updates: list[TableUpdate] = []
    if schema_id is None:
        schema_id = 1 + max(former.schema_id for former in metadata.schemas)
        updates.append(AddSchemaUpdate(schema=Schema(*schema.fields, schema_id=schema_id)))
    updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id}))
    fields = fresh.partition_fields(definition.spec)
    spec_id = next((each.spec_id for each in metadata.partition_specs if each.fields == fields), None)
    if spec_id is None:
        spec_id = 1 + max(former.spec_id for former in metadata.partition_specs)
        updates.append(AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=spec_id)))
    updates.append(SetDefaultSpecUpdate.model_validate({"spec-id": spec_id}))
    if all(order.order_id != UNSORTED_SORT_ORDER_ID for order in metadata.sort_orders):
        updates.append(AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}))
    updates.append(SetDefaultSortOrderUpdate.model_validate({"sort-order-id": UNSORTED_SORT_ORDER_ID}))
    change = table.transaction()
    # The order comes first: the one that the table has may name columns that are gone.
    change.apply((*updates[-1:], *updates[:-1], *((SetPropertiesUpdate(updates=given),) if given else ())))
    return change
