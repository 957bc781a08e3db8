"""`erase` over many tables: one person, one proof, one record without the person's name."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.types import LongType

from kit.tables.lives import ids
from kit.tables.tables import MASTER_KEY, sealed_catalog
from sealberg.cli.main import cli
from sealberg.errors import ConfigError
from sealberg.jobs import erase_many
from sealberg.jobs.erase_record import is_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

SEALED = {"encryption.key-id": "hr"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[EncryptedSqlCatalog]:
    with sealed_catalog(tmp_path) as opened:
        yield opened


def make(catalog: EncryptedSqlCatalog, name: str, properties: dict[str, str] | None = None, /, **columns: Any) -> Any:
    rows = pa.table({"id": list(range(len(next(iter(columns.values()))))), **columns})
    table: Any = catalog.create_table(name, rows.schema, properties=SEALED if properties is None else properties)
    table.append(rows)
    return table


def lake(catalog: EncryptedSqlCatalog) -> dict[str, Any]:
    """The customer in the number, the text and the decimal; elsewhere under a name of the past, or not at all."""
    cents = pa.array([Decimal(7), Decimal(8), Decimal(7)], pa.decimal128(12, 2))
    tables = {
        "numbers": make(catalog, "hr.numbers", customer_id=[7, 8, 9]),
        "texts": make(catalog, "hr.texts", customer_id=["x", "7", "77"]),
        "decimals": make(catalog, "hr.decimals", customer_id=cents),
        "none": make(catalog, "hr.none", name=["7", "8"]),
        "former": make(catalog, "hr.former", customer_id=[1, 7]),
    }
    with tables["former"].update_schema() as update:
        update.rename_column("customer_id", "buyer")
    return {name: catalog.load_table(f"hr.{name}") for name in tables}


def test_one_value_in_all_tables_whatever_its_type(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    tables, path = lake(catalog), tmp_path / "record.json"
    plan = erase_many.plan(every=True, catalog=catalog, key_column="customer_id", value="7", record=path)
    assert not path.exists()
    done = plan.execute()
    assert done.exit_code == 0, str(done)
    assert {part.table: part.status for part in done.parts} == {
        "hr.decimals": "erase",
        "hr.former": "erase",
        "hr.none": "without",
        "hr.numbers": "erase",
        "hr.texts": "erase",
    }
    left = {name: ids(table.refresh()) for name, table in tables.items()}
    assert left == {"numbers": [1, 2], "texts": [0, 2], "decimals": [1], "none": [0, 1], "former": [0]}
    record = json.loads(path.read_text())
    rows = {each["table"]: (each["table_uuid"], each["rows"], each["proved"]) for each in record["tables"]}
    assert rows["hr.decimals"] == (str(tables["decimals"].metadata.table_uuid), 2, True)
    assert (record["state"], record["exit_code"], record["columns"]) == ("finished", 0, ["customer_id"])
    assert all(record[name] for name in ("started", "ended", "user", "host", "run_by", "sha256", "seal"))
    assert is_about(record, "7")
    assert not is_about(record, "8")
    again = erase_many.plan(every=True, catalog=catalog, key_column="customer_id", value="7").execute()
    assert (again.exit_code, [part.erasure.rows for part in again.parts if part.erasure]) == (0, [0, 0, 0, 0])


def test_neither_record_nor_page_has_the_value(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    table = make(catalog, "hr.people", name=["SECRET", "other"])
    table.transaction().set_properties({"owner": "x"}).commit_transaction()
    make(catalog, "hr.open", {"format-version": "3"}, name=["SECRET"])
    ways: tuple[Any, ...] = ({"where": "name = 'SECRET'"}, {"key_column": "name", "value": "SECRET"})
    for number, given in enumerate(ways):
        path = tmp_path / f"record{number}.json"
        done = erase_many.plan(every=True, catalog=catalog, record=path, **given).execute()
        assert done.exit_code == 2, "the plaintext table may have the rows"
        assert "NOT SEARCHED: has the column name, and is not encrypted" in str(done)
        text = path.read_text() + path.with_suffix(".html").read_text()
        assert "SECRET" not in text
        assert "hr.people" in text


def test_a_type_without_such_a_value_is_not_concerned(catalog: EncryptedSqlCatalog) -> None:
    make(catalog, "hr.numbers", who=[1, 2])
    make(catalog, "hr.texts", who=["ann", "bob"])
    done = erase_many.plan(every=True, catalog=catalog, key_column="who", value="ann").execute()
    assert (done.exit_code, [part.status for part in done.parts]) == (0, ["without", "erase"])


def test_what_cannot_be_searched_makes_the_whole_not_proved(catalog: EncryptedSqlCatalog) -> None:
    make(catalog, "hr.both", a=[1, 2], b=[1, 2])
    make(catalog, "hr.one", a=[1, 2])
    damaged = make(catalog, "hr.damaged", a=[1, 2], b=[1, 2])
    Path(damaged.metadata_location.removeprefix("file://")).write_text("{}")
    done = erase_many.plan(every=True, catalog=catalog, where="a = 1 and b = 1").execute()
    assert done.exit_code == 2
    assert {part.table: part.status for part in done.parts} == {
        "hr.both": "erase",
        "hr.damaged": "failed",
        "hr.one": "unsearched",
    }
    assert ids(catalog.load_table("hr.both")) == [1], "the others go on"


def test_a_type_that_a_column_had_before_is_searched(catalog: EncryptedSqlCatalog) -> None:
    table = make(catalog, "hr.people", number=["7", "8"])
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("number")
    with table.update_schema() as update:
        update.add_column("number", LongType())
    table.append(pa.table({"id": [2], "number": [7]}))
    assert erase_many.plan("hr.people", catalog=catalog, key_column="number", value="7").execute().exit_code == 0
    assert ids(table.refresh()) == [1]


def test_wrong_options_are_refused(catalog: EncryptedSqlCatalog, tmp_path: Path) -> None:
    make(catalog, "hr.people", name=["a"])
    (tmp_path / "there.json").write_text("{}")
    wrong: tuple[Any, ...] = (
        (("hr.people",), {}),
        (("hr.people",), {"where": "id = 1", "key_column": "id", "value": "1"}),
        (("hr.people",), {"key_column": "id"}),
        (("hr.people",), {"where": "id = 1", "value": "1"}),
        ((), {"where": "id = 1"}),
        (("hr.people",), {"where": "id = 1", "every": True}),
        (("hr.people",), {"where": "id = 1", "record": tmp_path / "there.json"}),
        (("hr.people",), {"where": "id = 1", "record": tmp_path / "record.txt"}),
        (("hr.people",), {"where": "id ="}),
    )
    for names, given in wrong:
        with pytest.raises(ConfigError):
            erase_many.plan(*names, catalog=catalog, **given)


def test_on_the_command_line(catalog: EncryptedSqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake(catalog)
    own = {"TYPE": "sql", "URI": catalog.properties["uri"], "WAREHOUSE": catalog.properties["warehouse"]}
    own |= {"ENCRYPTION__KMS_TYPE": "memory", "ENCRYPTION__KMS__MEMORY__KEY__HR": MASTER_KEY}
    for name, value in own.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{catalog.name.upper()}__{name}", value)
    path = tmp_path / "r.json"

    def say(*arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments, "--catalog", catalog.name])

    seven = ("--key-column", "customer_id", "--value", "7")
    assert say("erase", "--all", *seven, "--dry-run").exit_code == 0
    assert ids(catalog.load_table("hr.numbers")) == [0, 1, 2]
    done = say("erase", "--all", *seven, "--yes", "--record", str(path), "--json")
    assert (done.exit_code, json.loads(done.stdout)["proved"]) == (0, True)
    assert say("verify-record", str(path), "--value", "7").exit_code == 0
    assert say("verify-record", str(path), "--value", "8").exit_code == 1
    one = say("erase", "hr.texts", "--where", "customer_id = 'x'", "--yes", "--record", str(tmp_path / "s.json"))
    assert one.exit_code == 0, one.output
    assert say("erase", "hr.texts", "--where", "id = 1", "--sign-with", "hr", "--yes").exit_code == 2
