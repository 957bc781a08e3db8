"""Every name that Spark, Iceberg and PyIceberg know is obeyed, refused by name, or documented to have no effect."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table import TableProperties

import sealberg
from kit.tables import iceberg_names
from sealberg.errors import ConfigError
from sealberg.properties import catalog_names, spark_names, table_names
from sealberg.properties.known import NO_EFFECT, OBEYED, REFUSED, Known, find
from sealberg.properties.page import TABLES as SHOWN
from sealberg.properties.page import page as made_page
from sealberg.properties.table_names import check_table_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(sealberg.__file__).parent
JAVA = SOURCES.parents[1] / "jvm"
TABLES = {
    name: vars(module)[name]
    for module, names in (
        (spark_names, ("READ_OPTIONS", "WRITE_OPTIONS", "SESSION_SETTINGS", "APPLICATION_SETTINGS")),
        (table_names, ("TABLE_PROPERTIES",)),
        (catalog_names, ("CATALOG_PROPERTIES",)),
    )
    for name in names
}
PYICEBERGS = [
    value
    for name, value in vars(TableProperties).items()
    if isinstance(value, str) and name.isupper() and not name.endswith("_DEFAULT") and re.fullmatch(r"[a-z.-]+", value)
]
BLOOM = "write.parquet.bloom-filter-"
VALUES = {TableProperties.DELETE_MODE_COPY_ON_WRITE, TableProperties.DELETE_MODE_MERGE_ON_READ}


def entries() -> Iterator[Any]:
    for table, known in TABLES.items():
        for one in known:
            yield pytest.param(table, one, id=f"{table}-{one.name}")


@pytest.mark.parametrize("table", TABLES)
def test_every_name_of_iceberg_java_is_judged(table: str) -> None:
    prefixes = {"snapshot-property", "spark.sql.iceberg.snapshot-property."}
    for name in getattr(iceberg_names, table, []):  # settings of an application are sealberg's own
        wanted = name + "x" if name.endswith(".") else f"{name}.x" if name in prefixes else name
        assert find(TABLES[table], wanted.lower()) is not None, f"{name} is not in {table}"


def test_every_table_property_of_pyiceberg_is_judged() -> None:
    assert len(PYICEBERGS) > 25
    for name in set(PYICEBERGS) - VALUES:
        wanted = f"{name}.x" if name.endswith("column") else name
        assert find(TABLES["TABLE_PROPERTIES"], wanted) is not None, name


def test_names_are_there_once() -> None:
    for table, known in TABLES.items():
        names = [one.name for one in known]
        assert sorted(names) == sorted(set(names)), table


@pytest.mark.parametrize(("table", "one"), list(entries()))
def test_each_has_its_fate(table: str, one: Known) -> None:
    if one.fate != OBEYED:
        assert len(one.reason) > 10, "a name without an effect says why"
    if one.fate == REFUSED:
        assert_refused(table, one)
    elif one.fate == NO_EFFECT:
        assert_accepted(table, one)
    elif table != "CATALOG_PROPERTIES":  # which PyIceberg's catalogs read
        assert_read(one)


def assert_refused(table: str, one: Known) -> None:
    with pytest.raises(ConfigError, match=rf"{re.escape(one.name)}.* is not supported: {re.escape(one.reason)}"):
        give(table, one)


def assert_accepted(table: str, one: Known) -> None:
    give(table, one)


def give(table: str, one: Known) -> None:
    """Hand the name in where its users do."""
    from sealberg.spark.catalog_options import check_settings, options_of
    from sealberg.spark.driver.read_options import ReadOptions
    from sealberg.spark.driver.session_settings import SessionSettings
    from sealberg.spark.driver.write_options import check_names

    name = one.name + "x" if one.name.endswith(".") else one.name
    match table:
        case "READ_OPTIONS":
            ReadOptions.of("hr.pay", {name: "1"})
        case "WRITE_OPTIONS":
            check_names("hr.pay", {name: "true"})
        case "SESSION_SETTINGS":
            value = {"data-planning-mode": "auto", "delete-planning-mode": "auto", "compression-strategy": "speed"}
            SessionSettings.of({name: value.get(name.split(".")[-1], "true")})
        case "APPLICATION_SETTINGS":
            check_settings([name])
        case "TABLE_PROPERTIES":
            check_table_properties("hr.pay", [name])
        case _:
            options_of("prod", {f"spark.sql.catalog.prod.{name}": "1"})


@cache
def sources() -> str:
    python = [path for path in SOURCES.rglob("*.py") if path.parent.name != "properties"]
    return "\n".join(path.read_text() for path in (*python, *JAVA.rglob("*.java")))


def assert_read(one: Known) -> None:
    """Some module looks the name up, by itself or by a name of PyIceberg's."""
    name = one.name.removeprefix("spark.sql.iceberg.").rstrip(".")
    if name.startswith("commit.") or name in PYICEBERGS:  # read by their prefix, or under PyIceberg's constants
        return
    if name.startswith(BLOOM):
        assert f'"{BLOOM}"' in sources()
        return
    last = name.split(".")[-1]
    parts = (f'"{name}"', f'"{name}.', f'.{last}"', f'"{one.name}"')
    assert any(part in sources() for part in parts), f"nobody reads {one.name}"


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    for table, text in {
        "READ_OPTIONS": "unknown read option nonsense; known are branch, tag",
        "WRITE_OPTIONS": "unknown write option nonsense; known are write-format, target-file-size-bytes",
        "CATALOG_PROPERTIES": r"unknown option spark\.sql\.catalog\.prod\.nonsense; known are type, uri",
        "SESSION_SETTINGS": r"unknown setting of the session nonsense; known are spark\.wap\.id",
    }.items():
        with pytest.raises(ConfigError, match=text):
            give(table, Known("nonsense", OBEYED))
    for name in ("write.parquet.bogus", "read.bogus", "commit.bogus", "encryption.keyid", "gc.bogus"):
        group = name.split(".", maxsplit=1)[0]
        with pytest.raises(
            ConfigError, match=rf"unknown table property {name}; known names of {group}\.\* are {group}"
        ):
            give("TABLE_PROPERTIES", Known(name, OBEYED))
    check_table_properties("hr.pay", ["owner-team", "my.write.mode"])  # the user's own


# -- the page ---------------------------------------------------------------------------------


def test_the_page_is_the_one_that_the_tables_make() -> None:
    page = SOURCES.parents[1] / "docs" / "properties.md"
    assert page.read_text() == made_page(), "run: python -m sealberg.properties > docs/properties.md"


def test_only_names_with_an_effect_have_a_default() -> None:
    for table in SHOWN:
        assert {one.name for one in table.names if one.default is not None and one.fate != OBEYED} == set()


def test_the_defaults_are_those_of_the_code() -> None:
    from sealberg.files.parquet import bloom_filters
    from sealberg.files.parquet.writer import write_options
    from sealberg.keys.file_key import DEFAULT_KEY_LENGTH
    from sealberg.keys.kek_cache import DEFAULT_TTL_S
    from sealberg.metadata import clock, manifest_codec, metadata_file
    from sealberg.write import retry

    parquet = write_options({})
    numbers = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    expected = {
        "write.parquet.row-group-size-bytes": parquet["row_group_bytes"],
        "write.parquet.row-group-limit": parquet["row_group_rows"],
        "write.parquet.page-size-bytes": parquet["data_page_size"],
        "write.parquet.dict-size-bytes": parquet["dictionary_pagesize_limit"],
        "write.parquet.compression-codec": parquet["compression"],
        "write.parquet.bloom-filter-fpp.column.": bloom_filters.DEFAULT_FPP,
        "write.parquet.bloom-filter-max-bytes": bloom_filters.DEFAULT_MAX_BYTES,
        "write.manifest.compression-codec": manifest_codec.DEFAULT,
        "write.target-file-size-bytes": TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT,
        "write.metadata.metrics.default": TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT,
        "write.metadata.previous-versions-max": TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT,
        "commit.max-clock-skew-ms": clock.DEFAULT_MAX_SKEW_MS,
        "encryption.data-key-length": DEFAULT_KEY_LENGTH,
        "encryption.kek-cache-ttl-s": f"{DEFAULT_TTL_S:g}",
        "sealberg.metadata.max-bytes": metadata_file.DEFAULT_MAX_BYTES,
        **{f"commit.retry.{name}": getattr(retry.COMMIT, name.replace("-", "_")) for name in numbers},
        **{f"commit.status-check.{name}": getattr(retry.STATUS_CHECK, name.replace("-", "_")) for name in numbers},
        **{f"sql.retry.{name}": getattr(retry.DATABASE, name.replace("-", "_")) for name in numbers},
    }
    known = {one.name: one.default for one in (*TABLES["CATALOG_PROPERTIES"], *TABLES["TABLE_PROPERTIES"])}
    assert {name: known[name] for name in expected} == {name: str(value) for name, value in expected.items()}
