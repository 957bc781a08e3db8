"""The result of `keys` as a page: master keys, the KEKs of every table, what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealberg.jobs.key_tree import STATES, age_text
from sealberg.jobs.report.document import Frame, document, section
from sealberg.jobs.report.key_picture import TONES
from sealberg.jobs.report.markup import code, count, day, element, joined, moment, value
from sealberg.jobs.report.table_section import data_table, pill
from sealberg.jobs.report.time_line import time_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.jobs.keys import KekUse, KeyInventory, MasterKeyUse, TableKeys
    from sealberg.jobs.report.markup import Markup


def keys_page(result: KeyInventory) -> str:
    """The whole document."""
    now_ms = int(result.made.timestamp() * 1000)
    due = sum(len(table.due) for table in result.tables)
    failed = sum(table.failed for table in result.tables)
    broken = sum(bool(key.problems) for key in result.master_keys)
    unknown = sum(bool(key.unknown) for key in result.master_keys)
    words = f"{count(len(result.master_keys), 'master key')} for {count(len(result.tables), 'table')} of the catalog."
    if failed:
        words += f" {count(failed, 'table')} could not be looked at."
    if unknown:
        words += f" Of {count(unknown, 'master key')} it is not known whether tables open with it."
    headline = f"{count(due, 'thing')} due" if due else "Nothing is due"
    if broken:
        headline = f"{count(broken, 'master key')} with problems"
    elif unknown:
        headline = f"{count(unknown, 'master key')} not known"
    frame = Frame(
        title=f"Keys of {result.catalog}",
        kind="key inventory",
        time=moment(now_ms),
        tone="bad" if failed or broken or unknown else "warn" if due else "good",
        headline=headline,
        words=words,
        foot="This page holds no key: keys are shown by their ids.",
        version=result.version,
    )
    return document(frame, (_masters(result), *(_table(each, now_ms, at) for at, each in enumerate(result.tables, 1))))


def _masters(result: KeyInventory) -> Markup:
    heads = ("Master key", "KMS", "State", "Newest version", "Versions in use", "Tables", "KEKs")
    caption = "Whoever may unwrap with a master key can open these tables"
    rows = (_master(key) for key in result.master_keys)
    return section("masters", "Master keys", data_table(caption, heads, rows, numbers=frozenset({5, 6})))


def _master(key: MasterKeyUse) -> Iterator[Markup]:
    yield element("th", code(key.key_id), scope="row", class_="name")
    yield element("td", value(key.provider))
    yield element("td", _state(key))
    yield element("td", value(key.newest) if key.newest is not None else element("span", key.reason, class_="muted"))
    yield element("td", ", ".join(f"{version}: {number}" for version, number in key.versions.items()))
    yield element("td", f"{len(key.tables):,}", class_="number")
    yield element("td", f"{key.keks:,}", class_="number")


def _state(key: MasterKeyUse) -> Markup:
    if key.problems:
        return joined(pill("problem", "bad"), " ", value("; ".join(key.problems)))
    if key.unknown:
        return joined(pill("not known", "bad"), " ", value(key.unknown))
    return element("span", "opens its tables" if key.asked else "not asked", class_="muted")


def _table(table: TableKeys, now_ms: int, number: int) -> Markup:
    title = f"table-{number}"
    head = element("h2", "Table ", value(table.name), id=title)
    if table.note:
        return element("section", head, element("p", value(table.note)), aria_labelledby=title)
    due = [element("li", pill("due", "warn"), " ", value(each)) for each in table.due]
    line = time_line(tuple(kek.facts for kek in table.keks), now_ms)
    words = f"Master key {table.master_key_id}, {count(table.snapshots, 'snapshot')}, {count(table.entries, 'key')}."
    heads = ("KEK", "State", "Age", "Made", "Ends", "Version", "Last used", "Keys sealed")
    rows = (_kek(kek, now_ms) for kek in table.keks)
    return element(
        "section",
        head,
        element("p", words),
        element("ul", due) if due else joined(),
        element("figure", line) if line is not None else joined(),
        data_table("Every key encryption key", heads, rows, numbers=frozenset({7})),
        aria_labelledby=title,
    )


def _kek(kek: KekUse, now_ms: int) -> Iterator[Markup]:
    facts = kek.facts
    yield element("th", code(facts.key_id), scope="row")
    yield element("td", pill(STATES[facts.state], TONES[facts.state]))
    yield element("td", age_text(facts, now_ms))
    yield element("td", day(facts.made_ms), class_="tight")
    yield element("td", day(facts.expires_ms), class_="tight")
    yield element("td", value(kek.version or "not told"))
    yield element("td", day(kek.last_used_ms) if kek.last_used_ms is not None else "never", class_="tight")
    yield element("td", "" if kek.sealed is None else f"{kek.sealed:,}", class_="number")
