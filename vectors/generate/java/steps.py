"""What a table of the corpus is made by: a Recipe of steps, each a statement or a call of Iceberg's API."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vectors.generate.java.release import Java

DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class Call:
    """A step through Iceberg's API; `told` is how table.json tells it."""

    told: str
    act: Callable[[Java, str], object] = field(repr=False)


Step = str | Call


@dataclass(frozen=True)
class Recipe:
    """A table: {t} in a statement is the table, {n} its name in the catalog, for procedures.

    `features` are the words by which a test suite picks what it can read (vectors/README.md lists them).
    """

    name: str
    about: str
    features: Sequence[str]
    steps: Sequence[Step]
    generic: bool = False  # has columns that only Iceberg's own readers know
    unreadable: bool = False  # its last snapshot cannot be read, by Java neither
    needs: Sequence[str] = ()


def create(columns: str, *, partitioned: str = "", key: str = "keyA", **properties: str) -> str:
    """CREATE TABLE; underscores in property names stand for dots, double ones for dashes."""
    given = {"format-version": "3", "encryption.key-id": key, "write.parquet.compression-codec": "zstd"}
    for name, value in properties.items():
        given[name.replace("__", "-").replace("_", ".")] = value
    told = ", ".join(f"'{name}'='{value}'" for name, value in given.items())
    by = f"partitioned by ({partitioned}) " if partitioned else ""
    return f"create table {{t}} ({columns}) using iceberg {by}tblproperties({told})"


def create_by_api(
    columns: Sequence[tuple[str, str]], *, voids: bool = False, properties: Mapping[str, str] | None = None
) -> Call:
    """A table with columns of any type, given as (name, type of the specification)."""
    fields = [{"id": i, "name": name, "required": False, "type": kind} for i, (name, kind) in enumerate(columns, 1)]
    given = {"format-version": "3", "encryption.key-id": "keyA", **(properties or {})}

    def act(java: Java, name: str) -> None:
        conf = java.spark.conf
        uri, warehouse = (conf.get(f"spark.sql.catalog.h.{one}") for one in ("uri", "warehouse"))
        schema = json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
        java.helper.create(uri, warehouse, name, schema, voids, given)

    void = f", void({columns[0][0]}), {columns[1][0]}" if voids else ""
    return Call(f"create ({', '.join(' '.join(one) for one in columns)}){void} {given}", act)


def append(rows: Sequence[Sequence[Any]], *, file_format: str = "parquet", days: int = 0) -> Call:
    """Append through the API, as if some days from now."""
    told = f"append {json.dumps(rows)} as {file_format}" + (f", {days} days from now" if days else "")
    return Call(
        told,
        lambda java, name: java.helper.append(java.table(name), file_format, days * DAY_MS, _spelt(rows)),
    )


def delete_equal(
    columns: Sequence[str], values: Sequence[Sequence[Any]], rows: Sequence[Sequence[Any]] = (), *, file_format: str
) -> Call:
    """One commit of equality deletes and of new rows."""
    told = f"delete where {list(columns)} in {json.dumps(values)} as {file_format}, append {json.dumps(rows)}"
    return Call(
        told,
        lambda java, name: java.helper.deleteEqual(
            java.table(name), file_format, list(columns), _spelt(values), _spelt(rows)
        ),
    )


def add_column(name: str, kind: str, default: Any) -> Call:
    told = f"add column {name} {kind} default {json.dumps(default)}"
    return Call(told, lambda java, table: java.helper.addColumn(java.table(table), name, kind, json.dumps(default)))


def new_default(name: str, default: Any) -> Call:
    told = f"set write default of {name} to {json.dumps(default)}"
    return Call(told, lambda java, table: java.helper.newDefault(java.table(table), name, json.dumps(default)))


def at_snapshot(statement: str, index: int) -> Call:
    """A statement in which {id} is the id of the table's snapshot number `index`."""

    def act(java: Java, name: str) -> None:
        ids = [row[0] for row in java.sql(f"select snapshot_id from h.db.{name}.snapshots order by committed_at")]
        java.sql(statement.format(t=f"h.db.{name}", n=f"db.{name}", id=ids[index]))

    return Call(f"{statement} (id: snapshot number {index})", act)


def _spelt(rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    return [[None if value is None else json.dumps(value) for value in row] for row in rows]
