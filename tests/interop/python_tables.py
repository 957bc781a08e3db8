"""Tables of every kind, as Python writes them: each function makes one, by `new(schema, spec=..., **properties)`."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from interop.python_types import nested, nested_in_avro, types, types_in_avro
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.keys.keyring import DAY_MS
from sealberg.keys.manager import EncryptionManager
from sealberg.metadata.updates import RemoveEncryptionKeyUpdate

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore"),  # Spark's own
]

SCHEMA: Final = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "data", StringType(), required=False),
    NestedField(3, "kind", StringType(), required=False),
    NestedField(4, "at", TimestamptzType(), required=False),
)
IN_PLACE: Final = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
START: Final = dt.datetime(1969, 12, 30, 12, tzinfo=dt.UTC)


def rows(*ids: int) -> pa.Table:
    made = [
        {"id": i, "data": f"d{i}é", "kind": ("x", "y", None, "z/ ü")[i % 4], "at": START + dt.timedelta(hours=11 * i)}
        for i in ids
    ]
    return pa.Table.from_pylist(made, schema=schema_to_pyarrow(SCHEMA, include_field_ids=False))


def span(start: int, stop: int) -> pa.Table:
    return rows(*range(start, stop))


def renamed(some: pa.Table) -> pa.Table:
    return some.set_column(1, "data", pa.array(["upserted"] * len(some), some.schema.field("data").type))


def appended(new: Any) -> None:
    table = new()
    for i in range(3):
        table.append(span(i * 10, i * 10 + 10), snapshot_properties={"who": "mé", "zz": "1"})


def empty(new: Any) -> None:
    new()


def of_no_rows(new: Any) -> None:
    table = new()
    table.append(rows())
    table.append(rows(1, 2, 3))


def partitioned(new: Any) -> None:
    pytest.importorskip("pyiceberg_core")
    table = new(
        spec=PartitionSpec(
            PartitionField(3, 1000, IdentityTransform(), "kind"),
            PartitionField(1, 1001, BucketTransform(3), "id_bucket"),
            PartitionField(2, 1002, TruncateTransform(2), "data_start"),
            PartitionField(4, 1003, DayTransform(), "at_day"),
            PartitionField(3, 1004, VoidTransform(), "kind_void"),
        )
    )
    table.append(span(0, 12))
    table.delete("id == 5 or kind == 'y'")


def partitioned_in_several_ways(new: Any) -> None:
    pytest.importorskip("pyiceberg_core")
    table = new()
    table.append(span(0, 5))
    with table.update_spec() as update:
        update.add_field("kind", "identity", "kind")
    table.append(span(5, 10))
    with table.update_spec() as update:
        update.remove_field("kind").add_field("id", BucketTransform(3), "id_bucket")
    table.append(span(10, 15))
    with table.update_sort_order() as order:
        order.desc("data", IdentityTransform(), NullOrder.NULLS_LAST)
    table.append(span(15, 20))
    table.delete("id in (1, 6, 11, 16)")


def evolved(new: Any) -> None:
    table = new(
        Schema(
            NestedField(1, "id", IntegerType(), required=False),
            NestedField(2, "data", StringType(), required=False),
            NestedField(3, "f", FloatType(), required=False),
            NestedField(4, "dec", DecimalType(9, 2), required=False),
            NestedField(5, "st", StructType(NestedField(6, "a", IntegerType(), required=False)), required=False),
        )
    )

    def some(*ids: int) -> pa.Table:
        made = [{"id": i, "data": f"d{i}", "f": i / 4, "dec": Decimal(i), "st": {"a": i}} for i in ids]
        kinds = [pa.int32(), pa.string(), pa.float32(), pa.decimal128(9, 2), pa.struct([("a", pa.int32())])]
        return pa.Table.from_pylist(made, schema=pa.schema(zip(("id", "data", "f", "dec", "st"), kinds, strict=True)))

    table.append(some(*range(5)))
    with table.update_schema() as update:
        update.add_column("extra", StringType(), doc="later")
        update.add_column(("st", "b"), LongType())
    table.append(some(*range(5, 8)))
    with table.update_schema() as update:
        update.rename_column("f", "g")
        update.update_column("id", LongType())
        update.update_column("f", DoubleType())
        update.update_column("dec", DecimalType(18, 2))
    with table.update_schema() as update:
        update.delete_column("extra")
        update.add_column("extra", IntegerType())
        update.move_first("g")
    table.append(pa.table({"g": [0.1], "id": [100], "data": ["late"], "extra": pa.array([7], pa.int32())}))


def with_fields_of_the_past(new: Any) -> None:
    """Columns that partitioned the table are dropped, one of them inside a struct, and one comes back as a number."""
    where = StructType(NestedField(6, "city", StringType()), NestedField(7, "zip", IntegerType()))
    spec = PartitionSpec(
        PartitionField(3, 1000, IdentityTransform(), "kind"),
        PartitionField(6, 1001, IdentityTransform(), "where.city"),
        PartitionField(2, 1002, BucketTransform(2), "data_bucket"),
    )
    table = new(
        Schema(*SCHEMA.fields, NestedField(5, "where", where)), spec, **{"commit.manifest.min-count-to-merge": "2"}
    )

    def some(*ids: int, **more: Any) -> pa.Table:
        named = [{**row, "where": {"city": "ab"[row["id"] % 2], "zip": row["id"]}} for row in rows(*ids).to_pylist()]
        made = [{**row, **{name: value(row["id"]) for name, value in more.items()}} for row in named]
        return pa.Table.from_pylist(made, schema=schema_to_pyarrow(table.schema(), include_field_ids=False))

    table.append(some(*range(6)))
    with table.update_spec() as change:
        change.remove_field("kind")
        change.remove_field("where.city")
    with table.update_schema() as change:
        change.delete_column("kind")
        change.delete_column("where.city")
    table.append(some(*range(6, 9)))
    table.delete("id = 1")
    with table.update_schema() as change:
        change.add_column("kind", LongType())
    with table.update_spec() as change:
        change.add_identity("kind")
    table.append(some(*range(9, 12), kind=lambda number: number % 2 or None))
    table.delete("id in (4, 10)")


def with_defaults(new: Any) -> None:
    table = new()
    table.append(span(0, 4))
    with table.update_schema() as update:
        update.add_column("n_int", IntegerType(), default_value=42)
        update.add_column("n_str", StringType(), default_value='dé"f')
        update.add_column("n_dbl", DoubleType(), default_value=1e10)
        update.add_column("n_flt", FloatType(), default_value=0.1)
        update.add_column("n_dec", DecimalType(9, 2), default_value=Decimal("1.50"))
        update.add_column("n_day", DateType(), default_value=dt.date(2020, 1, 2))
        update.add_column("n_at", TimestamptzType(), default_value=dt.datetime(2020, 1, 2, 3, 4, 5, 500000, dt.UTC))
        update.add_column("n_bool", BooleanType(), default_value=False)
        update.add_column("n_bin", BinaryType(), default_value=b"\x00\xff")
        update.add_column("n_two", FixedType(2), default_value=b"\x01\xfe")
        update.add_column("n_u", UUIDType(), default_value=uuid.UUID(int=5))
    table.append(span(4, 6))


def copied_on_write(new: Any) -> None:
    table = new()
    table.append(span(0, 10))
    table.append(span(10, 20))
    table.delete("id == 3")
    table.overwrite(span(100, 103), overwrite_filter="id == 15")
    table.upsert(renamed(rows(17, 200, 201)), join_cols=["id"])
    table.delete("id >= 0")
    table.append(span(0, 12))


def merged_on_read(new: Any) -> None:
    table = new(**IN_PLACE)
    for i in range(3):
        table.append(span(i * 10, i * 10 + 10))
    table.delete("id in (3, 13)")  # two vectors in one file
    table.delete("id == 4")  # and one of them replaced
    table.upsert(renamed(rows(5, 500)), join_cols=["id"])
    table.delete("id >= 20 and id < 30")


def merged_on_read_in_partitions(new: Any) -> None:
    table = new(spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "kind")), **IN_PLACE)
    table.append(span(0, 16))
    table.delete("id in (1, 2, 3, 4)")
    table.delete("id in (5, 6)")


def in_avro(new: Any) -> None:
    table = new(**{"write.format.default": "avro"}, **IN_PLACE)
    table.append(span(0, 10))
    table.append(span(10, 20))
    table.delete("id in (3, 14)")
    table.upsert(renamed(rows(5, 500)), join_cols=["id"])


def with_long_manifests(new: Any) -> None:
    """A manifest and a manifest list of several encrypted blocks."""
    table = new(
        spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "kind")),
        **{
            "write.manifest.compression-codec": "uncompressed",
            "write.object-storage.enabled": "true",
            "write.object-storage.partitioned-paths": "false",
        },
    )
    made = [span(i, i + 1).set_column(2, "kind", pa.array([f"{i:02}" + "k" * 30_000])) for i in range(60)]
    with table.transaction() as transaction:
        for one in made[:20]:
            transaction.append(one)
        transaction.append(pa.concat_tables(made[20:]))
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    listed = len(table.inner.new_input(snapshot.manifest_list))
    assert min(listed, max(m.manifest_length for m in snapshot.manifests(table.io))) > BLOCK_SIZE


def with_merged_manifests(new: Any) -> None:
    table = new(**{"commit.manifest.min-count-to-merge": "3", "write.manifest.compression-codec": "snappy"})
    for i in range(8):
        table.append(span(i * 5, i * 5 + 5))
    table.delete("id == 7")
    table.append(span(50, 53))


def with_branches_and_tags(new: Any) -> None:
    table = new(**{"write.manifest.compression-codec": "zstd"})
    table.append(span(0, 5))
    first = table.metadata.current_snapshot_id
    table.append(span(5, 8))
    manage = table.manage_snapshots().create_tag(first, "v1", max_ref_age_ms=10**12)
    manage.create_branch(first, "dev", 10**12, 10**11, 3).commit()
    table.append(span(20, 23), branch="dev")
    table.delete("id == 1", branch="dev")
    table.append(span(8, 10))


def without_kek(table: Any) -> None:
    """Take the KEK away that the table got when it was created, so that the next commit makes one."""
    gone = [RemoveEncryptionKeyUpdate.model_validate({"key-id": key.key_id}) for key in table.metadata.encryption_keys]
    with table.transaction() as transaction:
        transaction.apply(tuple(gone))


def with_a_new_key_after_two_years(new: Any) -> None:
    table = new()
    without_kek(table)
    now = table.encryption
    table.encryption = EncryptionManager(
        now.settings, kms=now.kms, cache=now.cache, now_ms=lambda: time.time_ns() // 10**6 - 800 * DAY_MS
    )
    table.append(span(0, 5))
    table.encryption = now
    table.append(span(5, 12))
    assert sum(key.encrypted_by_id == "keyA" for key in table.metadata.encryption_keys) == 2


def under_keys_of_24_bytes(new: Any, length: int = 24) -> None:
    table = new(**{"encryption.data-key-length": str(length)}, **IN_PLACE)
    table.append(span(0, 5))
    table.delete("id == 3")


def under_keys_of_32_bytes(new: Any) -> None:
    under_keys_of_24_bytes(new, 32)


def expired(new: Any) -> None:
    table = new()
    for i in range(4):
        table.append(span(i * 5, i * 5 + 5))
    table.delete("id == 3")
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.metadata.snapshots][:3]).commit()
    with table.transaction() as transaction:
        transaction.set_properties({"zeta": 'é "q" \\ / \n \x1f', "alpha": "2"})
        transaction.append(rows(90))
        transaction.delete("id == 4")


def with_packed_metadata(new: Any) -> None:
    table = new(**{"write.metadata.compression-codec": "gzip"})
    table.append(span(0, 5))
    table.delete("id == 3")


def by_years(new: Any, *transforms: Any) -> None:
    pytest.importorskip("pyiceberg_core")
    fields = [PartitionField(4, 1000 + at, one, f"at_{at}") for at, one in enumerate(transforms or [YearTransform()])]
    table = new(spec=PartitionSpec(*fields))
    table.append(span(0, 12))
    table.delete("id == 3")


def by_months(new: Any) -> None:
    by_years(new, MonthTransform())


def by_hours(new: Any) -> None:
    by_years(new, HourTransform())


def overwritten(new: Any) -> None:
    table = new(spec=PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "kind")))
    table.append(span(0, 10))
    table.dynamic_partition_overwrite(rows(40, 44))
    table.overwrite(rows(50), overwrite_filter="id > 5 and id < 8")
    table.overwrite(span(60, 66))


def rolled_back(new: Any) -> None:
    table = new()
    table.append(span(0, 5))
    first = table.metadata.current_snapshot_id
    table.append(span(5, 8))
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    table.append(span(8, 10))


KINDS: Final[tuple[Callable[[Any], None], ...]] = (
    appended,
    empty,
    of_no_rows,
    types,
    types_in_avro,
    nested,
    nested_in_avro,
    partitioned,
    partitioned_in_several_ways,
    evolved,
    with_fields_of_the_past,
    with_defaults,
    copied_on_write,
    merged_on_read,
    merged_on_read_in_partitions,
    in_avro,
    with_long_manifests,
    with_merged_manifests,
    with_branches_and_tags,
    with_a_new_key_after_two_years,
    under_keys_of_24_bytes,
    under_keys_of_32_bytes,
    expired,
    with_packed_metadata,
    by_years,
    by_months,
    by_hours,
    overwritten,
    rolled_back,
)
