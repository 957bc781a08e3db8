"""One table on the page: what the catalog says of it, its keys, their ages, its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.jobs.job import readable
from sealberg.jobs.key_tree import STATES, age_text, state_notes
from sealberg.jobs.report.key_picture import TONES, key_picture
from sealberg.jobs.report.markup import Markup, code, count, day, element, joined, value
from sealberg.jobs.report.time_line import time_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sealberg.jobs.findings import KekFacts, KindFacts, TableFacts
    from sealberg.jobs.report.markup import Content

BAR: Final = (110, 10)
SHARE: Final = "Share of bytes"
KINDS: Final = {
    "metadata": "metadata.json",
    "manifest-list": "manifest lists",
    "manifest": "manifests",
    "data": "data files",
    "position-deletes": "position delete files",
    "equality-deletes": "equality delete files",
    "deletion-vectors": "deletion vector files",
    "statistics": "statistics files",
    "unreferenced": "files that no metadata names",
}
CHECKED: Final = {True: "yes", False: "no", None: "not asked"}


def table_section(table: TableFacts, now_ms: int, number: int) -> Markup:
    """The section of a table; `number` makes the id of its heading."""
    title = f"table-{number}"
    return element(
        "section",
        element("h2", "Table ", value(table.name), id=title),
        facts(_facts(table)),
        _keys(table, now_ms, title) if table.encrypted else _not_encrypted(),
        _sizes(table),
        aria_labelledby=title,
    )


def facts(pairs: Iterable[tuple[str, Content]]) -> Markup:
    """Names and values, one below the other."""
    return element("dl", [(element("dt", name), element("dd", content)) for name, content in pairs], class_="facts")


def pill(text: str, tone: str) -> Markup:
    return element("span", text, class_=f"pill {tone}")


def data_table(caption: str, heads: tuple[str, ...], rows: Iterable[Content], *, numbers: frozenset[int]) -> Markup:
    """A table with a caption; the columns in `numbers` hold numbers."""
    kinds = dict.fromkeys(numbers, "number") | ({heads.index(SHARE): "bar"} if SHARE in heads else {})
    cells = [element("th", head, scope="col", class_=kinds.get(at)) for at, head in enumerate(heads)]
    table = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", cells)),
        element("tbody", [element("tr", row) for row in rows]),
    )
    return scrolling(table, aria_label=caption)


def scrolling(content: Markup, **label: str) -> Markup:
    """Content that scrolls by itself on a small screen; the keyboard reaches it by its tab stop."""
    return element("div", content, class_="wide", tabindex="0", role="group", **label)


def _facts(table: TableFacts) -> Iterator[tuple[str, Content]]:
    yield "Location", code(table.location)
    yield "Table UUID", code(table.table_uuid)
    if table.encrypted:
        length = f", {8 * table.key_length}-bit file keys" if table.key_length else ""
        yield "Master key", [code(table.key_id), length]
    yield "Metadata", code(table.metadata_location)
    if table.encrypted:
        yield "Catalog state", _vouched(table)
    if table.metadata_hash is not None:
        yield "SHA-256", code(table.metadata_hash)
    if table.catalog_hash is not None and table.catalog_hash != table.metadata_hash:
        yield "In the catalog", code(table.catalog_hash)
    checked = sum(snapshot.checked for snapshot in table.snapshots)
    yield "Snapshots", f"{checked:,} of {count(len(table.snapshots), 'snapshot')} checked"


def _vouched(table: TableFacts) -> Content:
    if table.vouched_by == "hash":
        if table.metadata_hash is not None and table.metadata_hash == table.catalog_hash:
            return [pill("match", "good"), " The catalog vouches for the metadata by their hash."]
        return [pill("differ", "bad"), " The metadata in storage are not those that the catalog vouches for."]
    if table.vouched_by == "server":
        return [pill("server", "calm"), " The REST server sends the metadata, and vouches for them."]
    if table.vouched_by == "location":
        return [
            pill("no hash", "warn"),
            " The catalog vouches for the location and the key id; it has no hash of the metadata.",
        ]
    return [pill("nobody", "warn"), " No catalog vouches for the metadata."]


def _not_encrypted() -> Markup:
    return element("p", pill("not encrypted", "bad"), " Whoever can read the storage can read this table.")


def _keys(table: TableFacts, now_ms: int, title: str) -> Markup:
    line = time_line(table.keks, now_ms)
    return joined(
        element("h3", "Key tree"),
        _picture(
            key_picture(table), f"{title}-keys", "Each key opens what is to its right. Keys are shown by their ids."
        ),
        element("h3", "Ages of keys"),
        _picture(line, f"{title}-ages", "A solid bar: the key sealed new keys. Dashed: the rest of its lifespan.")
        if line is not None
        else element("p", "No key encryption key has a time."),
        data_table(
            "Every key encryption key",
            ("Key", "State", "Age", "Made", "Ends", "Needed by", "KMS unwrapped it"),
            (_kek(kek, now_ms) for kek in sorted(table.keks, key=lambda kek: kek.made_ms or 0, reverse=True)),
            numbers=frozenset(),
        ),
    )


def _picture(picture: Markup, label: str, words: str) -> Markup:
    frame = scrolling(picture, aria_labelledby=label)
    return element("figure", frame, element("figcaption", words, class_="muted", id=label))


def _kek(kek: KekFacts, now_ms: int) -> Iterator[Markup]:
    yield element("th", code(kek.key_id), scope="row")
    notes = ", ".join(state_notes(kek, now_ms))
    yield element(
        "td", pill(STATES[kek.state], TONES[kek.state]), element("span", notes, class_="file") if notes else ""
    )
    yield element("td", age_text(kek, now_ms))
    yield element("td", day(kek.made_ms), class_="tight")
    yield element("td", day(kek.expires_ms), class_="tight")
    yield element("td", count(len(kek.snapshots), "snapshot") if kek.snapshots else "nothing")
    yield element("td", CHECKED[kek.opened])


def _sizes(table: TableFacts) -> Markup:
    if not table.kinds:
        return joined(element("h3", "Files and sizes"), element("p", "No files were counted."))
    largest = max((kind.bytes for kind in table.kinds), default=0)
    rows = (_kind(kind, largest) for kind in table.kinds)
    heads = ("Kind", "Files", "Checked", "Stored", "Authenticated", "Blocks, modules", SHARE)
    recent = table.unreferenced_recent
    return joined(
        element("h3", "Files and sizes"),
        data_table("Stored files by kind", heads, rows, numbers=frozenset(range(1, 6))),
        element(
            "p",
            f"{count(recent, 'file')} that no metadata names {'is' if recent == 1 else 'are'} too young to be called "
            "orphaned: a writer may be about to commit.",
            class_="muted",
        )
        if recent
        else Markup(),
    )


def _kind(kind: KindFacts, largest: int) -> Iterator[Markup]:
    yield element("th", KINDS.get(kind.kind, kind.kind), scope="row")
    for text in (
        f"{kind.files:,}",
        f"{kind.checked_files:,}",
        readable(kind.bytes),
        readable(kind.checked_bytes),
        f"{kind.units:,}",
    ):
        yield element("td", text, class_="number")
    yield element("td", _bar(kind, largest), class_="bar")


def _bar(kind: KindFacts, largest: int) -> Markup:
    """The stored bytes against the largest kind; the darker part was authenticated."""
    width, height = BAR

    def rect(length: int, css: str) -> Markup:
        return element("rect", x=0, y=0, width=max(2.0, width * length / largest), height=height, rx=2, class_=css)

    stored = [rect(kind.bytes, "track")] if kind.bytes else []
    checked = [rect(min(kind.checked_bytes, kind.bytes), "solid")] if kind.bytes and kind.checked_bytes else []
    return element(
        "svg",
        stored,
        checked,
        viewBox=f"0 0 {width} {height}",
        aria_hidden="true",
        class_="calm",
    )
