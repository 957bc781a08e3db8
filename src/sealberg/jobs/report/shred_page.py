"""The record of `shred` as a page to sign and file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.jobs.report.document import Frame, document, section
from sealberg.jobs.report.markup import code, count, element, joined, value
from sealberg.jobs.report.table_section import facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealberg.jobs.report.markup import Content, Markup
    from sealberg.jobs.shred_record import ShredRecord

HEADLINES = {0: "Shredded and checked", 1: "Something may still be opened", 2: "Not proved"}


def shred_page(record: ShredRecord) -> str:
    """The whole document."""
    done = record.ended is not None
    frame = Frame(
        title=f"Shredding of {record.table}",
        kind="record of a shredding",
        time=(record.ended or record.started).strftime("%Y-%m-%d %H:%M UTC"),
        tone="good" if done and record.exit_code == 0 else "bad" if record.exit_code == 1 else "warn",
        headline=HEADLINES[record.exit_code] if done else "Begun, not finished",
        words=f"Access to {record.table} of the catalog {record.catalog} was destroyed." if done else "",
        foot="This page holds no row and no key.",
        version=record.version,
    )
    return document(
        frame,
        (
            section("what", "What was destroyed", facts(_facts(record))),
            section("before", "Who could open what, before", _items(map(str, record.before))),
            section("after", "Who can open what, after", _items(map(str, record.after), _nobody(record))),
            section("found", "What contradicts it", _items((*record.findings, *record.not_done), "Nothing.")),
            section("not-proved", "What is not proved", _items(record.not_proved, "Nothing.")),
            section("deleted", "Metadata files that were deleted", _items(record.deleted)),
            section("not-reached", "What was not reached", _items(record.not_reached)),
            section("sign", "Approval", facts(_signatures(record))),
        ),
    )


def _nobody(record: ShredRecord) -> str:
    return "Nobody, anything." if record.exit_code == 0 else "Nobody, by a metadata file; see what was found."


def _facts(record: ShredRecord) -> Iterator[tuple[str, Content]]:
    yield "Table", value(record.table)
    yield "Table UUID", code(record.table_uuid)
    yield "Location", code(record.location)
    yield "Taken out", f"{count(record.snapshots, 'snapshot')}, {count(record.keys, 'key')}"
    yield "Searched", f"{count(record.objects, 'object')}, {record.sealed:,} of them opened with the keys"
    if record.master_key:
        yield "Master key", ", ".join(f"{name} {text}" for name, text in record.master_key.items())


def _signatures(record: ShredRecord) -> Iterator[tuple[str, Content]]:
    yield "Approved by", value(record.approved_by or "")
    yield "Run by", value(record.run_by)
    yield "Started", record.started.strftime("%Y-%m-%d %H:%M:%S UTC")
    yield "Ended", "" if record.ended is None else record.ended.strftime("%Y-%m-%d %H:%M:%S UTC")
    yield "SHA-256 of the record", code(record.to_json()["sha256"])


def _items(lines: Iterable[str], nothing: str = "None.") -> Markup:
    items = [element("li", value(line)) for line in lines]
    return element("ul", items) if items else joined(element("p", nothing))
