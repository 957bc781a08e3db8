"""A value is checked before it is committed, by the code that reads it; no value locks a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from kit.tables.tables import sealed_catalog
from sealberg.errors import ConfigError
from sealberg.files.locations import normal
from sealberg.properties.known import OBEYED
from sealberg.properties.table_names import TABLE_PROPERTIES, check_values, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# After a commit, PyIceberg's words about write.metadata.delete-after-commit.enabled.
pytestmark = pytest.mark.filterwarnings("ignore:Failed to delete old metadata", "ignore:Parquet writer option")

ROWS = pa.table({"id": [1, 2]})
# Text that has no wrong value, or that is checked with the rest of the table.
UNCHECKED = {
    "format-version",
    "write.data.path",
    "write.metadata.path",
    "write.manifest.compression-codec",
    "write.parquet.compression-codec",
    "write.avro.compression-codec",
    "encryption.key-id",
    "encryption.data-key-length",
    "comment",
}
WRONG = {
    **{
        name: "x1"
        for one in TABLE_PROPERTIES
        if one.kind is not None
        for name in [f"{one.name}id" if one.name.endswith(".") else one.name]
    },
    "write.parquet.compression-codec": "rar",
    "write.avro.compression-codec": "rar",
    "write.manifest.compression-codec": "rar",
}
NUMBERS = {
    "read.split.target-size": ("-1", "0", "1_000", " 5", "5 ", "", "9223372036854775808", "1e3", "\u0665"),
    "commit.retry.num-retries": ("x", "2147483648", "0x10"),
    "write.target-file-size-bytes": ("0", "-1", "128MB"),
    "write.parquet.compression-level": ("99", "1.5"),
    "write.avro.compression-level": ("99", "high"),
    "write.metadata.metrics.default": ("truncate(0)", "truncate(x)", "all"),
    "write.parquet.bloom-filter-fpp.column.id": ("0", "1", "nan"),
    "schema.name-mapping.default": ("", "{", '{"a": 1}'),
}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Any]:
    with sealed_catalog(tmp_path) as made:
        yield made


def made(catalog: Any, **properties: str) -> Any:
    table = catalog.create_table("hr.t", ROWS.schema, properties={"encryption.key-id": "hr", **properties})
    table.append(ROWS)
    return table


def as_java_sets(catalog: Any, properties: dict[str, str]) -> Any:
    """The table, with properties that another writer has committed without a look at their values."""
    table = catalog.load_table("hr.t")
    path = Path(normal(table.metadata_location).removeprefix("file://"))
    document = json.loads(path.read_text())
    document["properties"] |= properties
    other = path.with_name(path.name.replace(".metadata.json", "-java.metadata.json"))
    other.write_text(json.dumps(document))
    catalog.drop_table("hr.t")
    return catalog.register_table("hr.t", f"file://{other}")


def test_every_property_that_is_obeyed_is_checked() -> None:
    obeyed = {one.name for one in TABLE_PROPERTIES if one.fate == OBEYED}
    assert obeyed - {one.name for one in TABLE_PROPERTIES if one.kind is not None} == UNCHECKED
    for one in TABLE_PROPERTIES:
        if one.kind is not None and one.default is not None:
            one.kind.of(one.name, one.default)


def test_a_wrong_value_is_committed_nowhere(catalog: Any) -> None:
    table = made(catalog)
    before = table.metadata_location
    for name, values in {**{name: (value,) for name, value in WRONG.items()}, **NUMBERS}.items():
        for value in values:
            changes: tuple[Callable[[dict[str, str]], Any], ...] = (
                lambda given: table.transaction().set_properties(given).commit_transaction(),
                lambda given: catalog.create_table("hr.u", ROWS.schema, properties=given),
                lambda given: catalog.create_table("hr.u", ROWS.schema, properties={"format-version": "2", **given}),
                lambda given: catalog.create_table_transaction(
                    "hr.u", ROWS.schema, properties={"encryption.key-id": "hr", **given}
                ).commit_transaction(),
            )
            for change in changes:
                with pytest.raises(ConfigError):
                    change({name: value})
                    pytest.fail(f"{name}={value!r} was accepted")
    assert catalog.load_table("hr.t").metadata_location == before
    assert catalog.list_tables("hr") == [("hr", "t")]


def test_values_that_java_takes_are_taken(catalog: Any) -> None:
    table = made(catalog)
    good = {
        "write.delete.mode": "Merge-On-Read",
        "write.delete.isolation-level": "SNAPSHOT",
        "write.distribution-mode": "HASH",
        "write.format.default": "PARQUET",
        "gc.enabled": "TRUE",
        "write.metadata.previous-versions-max": "-5",
        "commit.retry.num-retries": "+3",
        "write.metadata.metrics.column.id": "Truncate(3)",
        "write.parquet.compression-codec": "snappy",
        "write.parquet.compression-level": "3",
    }
    with table.transaction() as change:
        change.set_properties(good)
    table.append(ROWS)
    table.delete("id == 1")
    assert catalog.load_table("hr.t").scan().to_arrow()["id"].to_pylist() == [2, 2]


@pytest.mark.parametrize("name", ["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"])
def test_retries_below_zero_are_refused_in_a_new_table_alone(catalog: Any, name: str) -> None:
    given = {f"commit.retry.{name}": "-1"}
    with pytest.raises(ConfigError, match=f"{name} must be 0 or more, found -1"):
        made(catalog, **given)
    with made(catalog).transaction() as change:
        change.set_properties(given)
    assert catalog.load_table("hr.t").properties[f"commit.retry.{name}"] == "-1"


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "zstandard"])
def test_a_plain_table_takes_codecs_of_pyiceberg(catalog: Any, codec: str) -> None:
    given = {"write.avro.compression-codec": codec}
    table = catalog.create_table("hr.plain", ROWS.schema, properties={"format-version": "2", **given})
    table.append(ROWS)
    with table.transaction() as change:
        change.set_properties({"write.avro.compression-codec": "gzip"})
    with table.transaction() as change:
        change.set_properties(given)
    assert catalog.load_table("hr.plain").scan().to_arrow().num_rows == 2
    with pytest.raises(ConfigError, match="Unsupported compression codec"):
        catalog.create_table("hr.t", ROWS.schema, properties={"encryption.key-id": "hr", **given})


def test_a_level_is_one_of_its_codec(catalog: Any) -> None:
    table = made(catalog, **{"write.parquet.compression-level": "20"})
    with pytest.raises(ConfigError, match="of gzip is from 1 to 9, not 20"), table.transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "gzip"})


def test_no_value_locks_a_table(catalog: Any) -> None:
    made(catalog)
    table = as_java_sets(catalog, WRONG | {"read.split.target-size": "-1"})
    for name in WRONG:
        with catalog.load_table("hr.t").transaction() as change:
            change.remove_properties(name)
        assert name not in catalog.load_table("hr.t").properties
    table = catalog.load_table("hr.t")
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 4


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_value_fails_only_what_uses_it(catalog: Any, name: str) -> None:
    made(catalog)
    table = as_java_sets(catalog, {name: WRONG[name]})
    if name != "schema.name-mapping.default":  # which every read uses
        assert table.scan().to_arrow().num_rows == 2
    with table.transaction() as change:
        change.set_properties({"owner-team": "pay"})
    assert catalog.load_table("hr.t").properties["owner-team"] == "pay"
    writes: tuple[Callable[[], Any], ...] = (lambda: table.append(ROWS), lambda: table.delete("id == 1"))
    for write in writes:
        try:
            write()
        except ConfigError as error:
            assert name.removesuffix(".id") in str(error) or WRONG[name] in str(error)  # noqa: PT017
    table = catalog.load_table("hr.t")
    with table.transaction() as change:
        change.set_properties({"owner-team": "hr"}).remove_properties(name)
    table.append(ROWS)
    as_java_sets(catalog, {name: WRONG[name]})
    catalog.drop_table("hr.t")
    assert not catalog.table_exists("hr.t")


def test_a_wrong_value_stays_when_another_is_repaired(catalog: Any) -> None:
    made(catalog)
    table = as_java_sets(catalog, {"write.metadata.previous-versions-max": "x", "commit.retry.num-retries": "y"})
    with pytest.raises(ConfigError, match=r"commit.retry.num-retries"):
        table.append(ROWS)
    with table.transaction() as change:
        change.set_properties({"commit.retry.num-retries": "3"})
    assert catalog.load_table("hr.t").properties["write.metadata.previous-versions-max"] == "x"
    with pytest.raises(ConfigError, match=r"write.metadata.previous-versions-max is a number, not 'x'"):
        table.append(ROWS)


def test_a_message_names_the_property_and_the_value() -> None:
    with pytest.raises(ConfigError, match=r"^write.delete.mode is copy-on-write or merge-on-read, not nonsense$"):
        check_values({"write.delete.mode": "nonsense"})
    with pytest.raises(ConfigError, match=r"^read.split.target-size must be positive, found -1$"):
        value_of({"read.split.target-size": "-1"}, "read.split.target-size", None)
    assert value_of({}, "read.split.target-size", 7) == 7


def test_metrics_of_a_column_that_is_not_there_are_refused(catalog: Any) -> None:
    wrong = {"write.metadata.metrics.column.nope": "full"}
    table = made(catalog)
    with pytest.raises(ConfigError, match="the table has no column 'nope'; it has id"):
        table.transaction().set_properties(wrong).commit_transaction()
    with pytest.raises(ConfigError, match="the table has no column 'nope'; it has id"):
        catalog.create_table("hr.u", ROWS.schema, properties={"encryption.key-id": "hr", **wrong})
    assert catalog.list_tables("hr") == [("hr", "t")]
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.column.id": "none"})
    with table.update_schema() as change:
        change.add_column("more", LongType())
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.column.more": "none"})
    with table.update_schema() as change:
        change.delete_column("more")
    table.append(ROWS)
