"""Partition values keep their types when columns are dropped, and metadata tables their names when names come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, VoidTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from sealberg.errors import UnsupportedError
from sealberg.metadata.manifest_writer import entry_encoder
from sealberg.metadata.partition_types import schema_for, unified

ID, TOWN = NestedField(1, "id", LongType()), NestedField(2, "town", StringType(), required=True)
INNER = NestedField(3, "where", StructType(NestedField(4, "city", StringType())))


def spec(number: int, *fields: tuple[int, int, Transform[Any, Any], str]) -> PartitionSpec:
    return PartitionSpec(*(PartitionField(*field) for field in fields), spec_id=number)


def metadata(spec: PartitionSpec, *schemas: Schema) -> Any:
    """The last schema is the current one."""
    return SimpleNamespace(schemas=list(schemas), schema=lambda: schemas[-1], specs=lambda: {spec.spec_id: spec})


def test_a_dropped_column_has_its_last_type_and_a_name_of_its_own() -> None:
    by = spec(0, (1, 1000, IdentityTransform(), "id"))
    old = Schema(NestedField(1, "id", IntegerType()), TOWN, schema_id=0)
    now = Schema(TOWN, NestedField(5, "id", StringType()), schema_id=2)
    made = schema_for(metadata(by, old, Schema(ID, TOWN, schema_id=1), now), 0)
    assert [(each.field_id, each.name) for each in made.fields] == [(2, "town"), (5, "id"), (1, "id-dropped-1")]
    assert by.partition_type(made).fields[0].field_type == LongType()
    assert made.schema_id == 2


@pytest.mark.parametrize("left", [Schema(ID), Schema(ID, NestedField(3, "where", StructType()))], ids=["all", "inside"])
def test_a_column_that_was_dropped_inside_a_struct_has_its_type(left: Schema) -> None:
    by = spec(0, (4, 1000, IdentityTransform(), "where.city"))
    made = schema_for(metadata(by, Schema(ID, INNER), left), 0)
    assert by.partition_type(made).fields[0].field_type == StringType()
    assert not made.find_field(4).required


def test_a_schema_that_has_all_columns_is_the_schema_itself() -> None:
    now = Schema(ID, TOWN)
    assert schema_for(metadata(spec(0, (1, 1000, IdentityTransform(), "id")), now), 0) is now


def test_values_without_a_type_are_not_written() -> None:
    """Java's expiry can remove the schemas that had the column."""
    by = spec(0, (2, 1000, IdentityTransform(), "town"))
    with pytest.raises(UnsupportedError, match=r"field town of spec 0 is not known: .* copy the rows into a new table"):
        entry_encoder(by, schema_for(metadata(by, Schema(ID)), 0))


def shown(*specs: PartitionSpec, schema: Schema) -> list[tuple[int, str, str]]:
    return [(each.field_id, each.name, str(each.field_type)) for each in unified(specs, schema).fields]


def test_fields_of_all_specs_are_shown_once_with_their_newest_names() -> None:
    first = spec(0, (2, 1000, IdentityTransform(), "town"))
    second = spec(1, (2, 1000, IdentityTransform(), "city"), (1, 1001, BucketTransform(4), "shard"))
    for order in ((first, second), (second, first)):
        assert shown(*order, schema=Schema(ID, TOWN)) == [(1000, "city", "string"), (1001, "shard", "int")]


def test_fields_of_dropped_columns_are_not_shown() -> None:
    both = spec(0, (2, 1000, IdentityTransform(), "town"), (1, 1001, BucketTransform(4), "shard"))
    assert shown(both, schema=Schema(ID)) == [(1001, "shard", "int")]
    assert shown(both, schema=Schema()) == []


def test_an_older_field_of_the_same_name_is_shown_with_its_id() -> None:
    """A struct with two fields of one name could not be read: Java's metadata tables fail."""
    specs = [spec(number, (1, 1000 + number, BucketTransform(2**number), "shard")) for number in range(3)]
    expected = [(1000, "shard_1000", "int"), (1001, "shard_1001", "int"), (1002, "shard", "int")]
    assert shown(*specs, schema=Schema(ID)) == expected


def test_a_name_with_an_id_that_is_taken_gets_the_id_again() -> None:
    names = ("shard", "shard_1000", "shard")
    specs = [spec(at, (1, 1000 + at, BucketTransform(2**at), name)) for at, name in enumerate(names)]
    expected = [(1000, "shard_1000_1000", "int"), (1001, "shard_1000", "int"), (1002, "shard", "int")]
    assert shown(*specs, schema=Schema(ID)) == expected


def test_a_field_that_became_void_has_the_type_of_its_values() -> None:
    before = spec(0, (2, 1000, BucketTransform(4), "town_bucket"))
    after = spec(1, (2, 1000, VoidTransform(), "town_1000"))
    assert shown(before, after, schema=Schema(TOWN)) == [(1000, "town_1000", "int")]
