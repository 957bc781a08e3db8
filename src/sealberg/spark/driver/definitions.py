"""CREATE and REPLACE TABLE: the definition of a table as Spark gives it, checked, and as updates of an old table."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from pyiceberg.partitioning import PartitionField, PartitionSpec, assign_fresh_partition_spec_ids
from pyiceberg.schema import Schema, assign_fresh_schema_ids
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

from sealberg.errors import ConfigError, UnsupportedError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.invariants import PLAINTEXT
from sealberg.properties.table_names import check_table_properties
from sealberg.spark.driver.descriptions import PROVIDER
from sealberg.spark.driver.partitions import partition_spec
from sealberg.spark.types import iceberg_schema
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from pyiceberg.table import Table

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


def replacement(table: Table, definition: CheckedDefinition) -> EncryptedTransaction:
    """A transaction that gives the table new columns and partitions; its history, key id and properties stay."""
    if not isinstance(table, CatalogTable):
        raise UnsupportedError("tables of format version 1 and 2 are not written from Spark")
    metadata = table.metadata
    given = {name: value for name, value in definition.properties.items() if name != "format-version"}
    if given.get(KEY_ID_PROPERTY, metadata.properties.get(KEY_ID_PROPERTY)) != metadata.properties.get(KEY_ID_PROPERTY):
        sealed = KEY_ID_PROPERTY in metadata.properties
        raise ConfigError("Cannot modify key ID of an encrypted table" if sealed else PLAINTEXT)
    numbers = count(metadata.last_column_id + 1)
    schema = assign_fresh_schema_ids(definition.schema, lambda: next(numbers))
    spec = assign_fresh_partition_spec_ids(definition.spec, definition.schema, schema)
    last = metadata.last_partition_id or 999
    fields = [
        PartitionField(field.source_id, last + number, field.transform, field.name)
        for number, field in enumerate(spec.fields, 1)
    ]
    spec_id = 1 + max(former.spec_id for former in metadata.partition_specs)
    schema_id = 1 + max(former.schema_id for former in metadata.schemas)
    change = table.transaction()
    change.apply(
        (
            AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}),
            SetDefaultSortOrderUpdate.model_validate({"sort-order-id": UNSORTED_SORT_ORDER_ID}),
            AddSchemaUpdate(schema=Schema(*schema.fields, schema_id=schema_id)),
            SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id}),
            AddPartitionSpecUpdate(spec=PartitionSpec(*fields, spec_id=spec_id)),
            SetDefaultSpecUpdate.model_validate({"spec-id": spec_id}),
            *((SetPropertiesUpdate(updates=given),) if given else ()),
        )
    )
    return change
