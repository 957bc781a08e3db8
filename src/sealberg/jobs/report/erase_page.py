"""The record of `erase` as a page to file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.jobs.report.document import Frame, document, section
from sealberg.jobs.report.markup import code, count, element, value
from sealberg.jobs.report.table_section import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.jobs.erase_record import EraseRecord, TableErased
    from sealberg.jobs.report.markup import Content

HEADLINES = {0: "Erased and proved", 1: "Something still holds the rows", 2: "Not proved"}
DONE = {
    "without": "never had such a column, or no such value",
    "unsearched": "NOT SEARCHED: it may have the rows",
    "failed": "FAILED: it may have the rows",
}


def erase_page(record: EraseRecord) -> str:
    """The whole document."""
    done = record.state == "finished"
    frame = Frame(
        title=f"Erasure in {record.catalog}",
        kind="record of an erasure",
        time=(record.ended or record.started).strftime("%Y-%m-%d %H:%M UTC"),
        tone="good" if done and record.exit_code == 0 else "bad" if record.exit_code == 1 else "warn",
        headline=HEADLINES[record.exit_code] if done else "Begun, not finished",
        words=f"Rows of one {record.value.of_what} in {count(len(record.tables), 'table')} of {record.catalog}.",
        foot="This page holds no row, no key and no value.",
        version=record.version,
    )
    tables = [element("li", value(_line(each))) for each in record.tables]
    return document(
        frame,
        (
            section("what", "What was erased", facts(_facts(record))),
            section("tables", "Tables", element("ul", tables) if tables else element("p", "None.")),
        ),
    )


def _line(table: TableErased) -> str:
    name = f"{table.table} ({table.table_uuid})"
    if table.status in DONE:
        return f"{name}: {DONE[table.status]}"
    verdict = "proved" if table.proved else f"NOT proved: {table.still} things still hold the rows, or may"
    return (
        f"{name}: {table.rows} rows in {table.files} files; {table.rewritten} files written anew, {table.snapshots} "
        f"snapshots and {table.tags} tags expired, {table.removed} files removed; {verdict}"
    )


def _facts(record: EraseRecord) -> Iterator[tuple[str, Content]]:
    yield "Catalog", value(record.catalog)
    yield "Columns", value(", ".join(record.columns))
    yield f"Hash of the {record.value.of_what}", code(record.value.hash)
    yield "Salt", code(record.value.salt)
    yield "Run by", value(record.run_by)
    yield "Started", record.started.strftime("%Y-%m-%d %H:%M:%S UTC")
    yield "Ended", "" if record.ended is None else record.ended.strftime("%Y-%m-%d %H:%M:%S UTC")
    yield "SHA-256 of the record", code(record.to_json()["sha256"])
