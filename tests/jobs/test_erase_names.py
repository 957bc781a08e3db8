"""`erase` finds a person under every field that ever had the name of a column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

from kit.tables.every_key import EveryKey, openings
from kit.tables.lives import check_exact
from kit.tables.tables import sealed_catalog
from sealberg.errors import ConfigError
from sealberg.files.locations import normal
from sealberg.jobs import erase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SEARCHABLE = {"encryption.key-id": "hr", "write.manifest.compression-codec": "uncompressed"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


def people(catalog: EncryptedSqlCatalog, **columns: Any) -> Any:
    rows = pa.table(columns)
    table: Any = catalog.create_table("hr.people", rows.schema, properties=SEARCHABLE)
    table.append(rows)
    return table


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def shown(table: Any, keys: EveryKey, text: str) -> list[str]:
    folder = Path(normal(table.metadata.location))
    return [path.name for path, plain in openings(folder, keys) if text.encode() in plain]


def erased(table: Any, where: str) -> Any:
    result = erase.plan(table, where=where).execute()
    table.refresh()
    assert result.is_proved, str(result)
    return result


def three(catalog: EncryptedSqlCatalog) -> Any:
    return people(catalog, id=[1, 2, 3], name=["person-1", "person-2", "person-3"])


def test_a_column_that_was_dropped_and_came_back(catalog: EncryptedSqlCatalog) -> None:
    table, keys = three(catalog), EveryKey()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    table.append(pa.table({"id": [4, 5], "name": ["person-2", "person-5"]}))
    keys.add(table)
    plan = erase.plan(table, where="name = 'person-2'")
    assert "name is and was the fields 3, 2: all are searched" in str(plan)
    assert erased(table, "name = 'person-2'").rows == 2
    keys.add(table)
    assert shown(table, keys, "person-2") == []
    assert ids(table) == [1, 3, 5]
    check_exact(table)


def test_a_name_that_another_column_had_before(catalog: EncryptedSqlCatalog) -> None:
    table = three(catalog)
    with table.update_schema() as update:
        update.rename_column("name", "full_name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    table.append(pa.table({"id": [4, 5], "full_name": ["x", "y"], "name": ["person-2", "person-5"]}))
    assert erased(table, "name = 'person-2'").rows == 2
    assert ids(table) == [1, 3, 5]


def test_a_column_that_is_no_more(catalog: EncryptedSqlCatalog) -> None:
    table, keys = three(catalog), EveryKey()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    keys.add(table)
    assert erased(table, "name in ('person-2', 'person-9') or id = 1").rows == 2
    keys.add(table)
    assert shown(table, keys, "person-2") == []
    assert ids(table) == [3]
    with pytest.raises(ConfigError, match="cannot parse the filter"):
        erase.plan(table, where="nothing = 'person-2'")


def test_a_struct_that_was_dropped_and_came_back(catalog: EncryptedSqlCatalog) -> None:
    table = people(catalog, id=[1, 2], who=[{"name": "person-1"}, {"name": "person-2"}])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("who")
    assert erased(table, "who.name = 'person-2'").rows == 1
    assert ids(table) == [1]


@pytest.mark.parametrize("where", ["name is null", "name != 'x'", "name not in ('x', 'y')", "not (name = 'x')"])
def test_what_would_match_where_nothing_is_names_the_fields(catalog: EncryptedSqlCatalog, where: str) -> None:
    table = three(catalog)
    assert erase.plan(table, where="name != 'person-1'").found.rows
    with table.update_schema() as update:
        update.rename_column("name", "full_name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    with pytest.raises(ConfigError, match="name has been the fields 3, 2, and only ="):
        erase.plan(table, where=where)


def test_a_number_that_was_a_text_before(catalog: EncryptedSqlCatalog) -> None:
    table = people(catalog, id=[1, 2, 3], number=["7", "b", "8"])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("number")
    with table.update_schema() as update:
        update.add_column("number", LongType())
    table.append(pa.table({"id": [4, 5], "number": [7, 9]}))
    assert erased(table, "number in (7, 8)").rows == 3
    assert ids(table) == [2, 5]
    assert erased(table, "number = '12x'").rows == 0


def test_a_value_that_a_former_field_cannot_have_names_the_fields(catalog: EncryptedSqlCatalog) -> None:
    table = people(catalog, id=[1, 2], number=[True, False])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("number")
    with table.update_schema() as update:
        update.add_column("number", LongType())
    with pytest.raises(ConfigError, match="number has been the fields 3, 2, and not all have a type that fits"):
        erase.plan(table, where="number = 7")


def test_a_part_of_a_struct_that_is_still_there_names_the_fields(catalog: EncryptedSqlCatalog) -> None:
    table = people(catalog, id=[1, 2], who=[{"name": "a", "mail": "b"}, {"name": "c", "mail": "d"}])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("who.name")
    with pytest.raises(ConfigError, match=r"who\.name has been the fields 3, and a field of a struct"):
        erase.plan(table, where="who.name = 'a'")
