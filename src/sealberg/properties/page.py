"""All tables of names as docs/properties.md, each with the people who may set its names."""

from __future__ import annotations

from typing import Final, NamedTuple

from sealberg.properties.catalog_names import CATALOG_PROPERTIES
from sealberg.properties.known import REFUSED, Known
from sealberg.properties.spark_names import APPLICATION_SETTINGS, READ_OPTIONS, SESSION_SETTINGS, WRITE_OPTIONS
from sealberg.properties.table_names import JUDGED, TABLE_PROPERTIES


class NameTable(NamedTuple):
    """The names of one kind."""

    title: str
    who: str
    set_by: str
    names: tuple[Known, ...]


TABLES: Final = (
    NameTable(
        "Properties of a catalog",
        "the configuration",
        "the configuration of the program: `.pyiceberg.yaml`, `PYICEBERG_CATALOG__*`, arguments of `load_catalog`, "
        "`spark.sql.catalog.NAME.*` at the start of Spark (no secrets there). A session, a table, a namespace or a "
        "server cannot set them",
        CATALOG_PROPERTIES,
    ),
    NameTable(
        "Properties of a table",
        "whoever may alter the table",
        "whoever may create or alter the table: `properties=` in Python, `TBLPROPERTIES` in SQL. Names outside "
        f"{', '.join(f'`{group}*`' for group in JUDGED)} that are not listed are your own, and kept",
        TABLE_PROPERTIES,
    ),
    NameTable("Options of a read on Spark", "the query", "the query: `spark.read.option(...)`", READ_OPTIONS),
    NameTable(
        "Options of a write on Spark", "the write", "the write: `frame.write.option(...)`, `writeTo`", WRITE_OPTIONS
    ),
    NameTable(
        "Settings of a Spark session",
        "the session",
        "the session: `spark.conf.set(...)`, `SET name=value`",
        SESSION_SETTINGS,
    ),
    NameTable(
        "Settings of a Spark application",
        "whoever starts Spark",
        "whoever starts Spark: `--conf`, `spark-defaults.conf`, the builder of a session",
        APPLICATION_SETTINGS,
    ),
)


def page() -> str:
    """docs/properties.md"""
    lines = [
        "# Properties and options",
        "",
        "<!-- Made from src/sealberg/properties: python -m sealberg.properties > docs/properties.md -->",
        "",
        "Every name that sealberg, PyIceberg 0.12, Iceberg 1.12 and its Spark connector know, and what becomes of it:",
        "",
        "* **obeyed**: the name has the effect that Iceberg documents, or the note explains; a wrong value is an error",
        "* **refused**: setting the name is an error; the note says what to use instead",
        "* **no effect**: the name is accepted, because the rows are the same without it; the note says why",
        "",
        "On Spark, any other name is an error that lists the known ones. In Python, other properties of a catalog go",
        "to PyIceberg. `NAME.*` is every name with that beginning. Where no default is given, it is Iceberg's.",
    ]
    for table in TABLES:
        lines += ["", f"## {table.title}", "", f"Set by {table.set_by}.", ""]
        lines += ["| name | default | who may set it | what happens |", "|---|---|---|---|"]
        for known in sorted(table.names):
            name = f"{known.name}*" if known.name.endswith(".") else known.name
            default = "" if known.default is None else f"`{known.default}`"
            happens = f"**{known.fate}**" + (f": {known.reason}" if known.reason else "")
            setter = "nobody" if known.fate == REFUSED else known.set_by or table.who
            lines.append(f"| `{name}` | {default} | {setter} | {happens} |")
    return "\n".join(lines) + "\n"
