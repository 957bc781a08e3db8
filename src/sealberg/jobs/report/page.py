"""The document: verdict first, then what was checked, findings, what was not checked, and each table.

The page has no script, loads nothing, and its content security policy allows no more than its own style sheet.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from sealberg.jobs.job import readable
from sealberg.jobs.report.document import POLICY, write_page
from sealberg.jobs.report.markup import Markup, code, count, element, joined, moment, value
from sealberg.jobs.report.style import style_sheet
from sealberg.jobs.report.table_section import data_table, facts, pill, table_section

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from sealberg.jobs.findings import Finding, NotChecked, Verification
    from sealberg.jobs.report.markup import Content

LEVELS: Final = {
    "full": "every block of AGS1 files and every module of Parquet files",
    "deep": "every block of AGS1 files, every module of Parquet files, and every row against counts and bounds",
    "fast": "headers and footers only",
}
NOT_HIDDEN: Final = (
    ("metadata.json", "schema, column names, properties, partition specs, times and counts of snapshots, ids of keys"),
    ("Names and paths", "of tables and files, with partition values where a path holds them"),
    ("Sizes and numbers", "of files, and rows per snapshot in summaries; how well the rows compress"),
    ("Access", "which files are read or written, when and by whom; storage and KMS see the requests"),
    ("Statistics files of other writers", "Iceberg Java 1.12 writes table and partition statistics as plaintext"),
)
MARKS: Final = {
    "good": "M14 25l7 7 14-16",
    "warn": "M24 13v14M24 35v.5",
    "bad": "M16 16l16 16M32 16l-16 16",
}


def write_report(result: Verification, path: str | os.PathLike[str]) -> None:
    """Write the page; an existing file is replaced when the new one is whole."""
    write_page(page(result), path)


def page(result: Verification) -> str:
    """The whole document."""
    names = ", ".join(table.name for table in result.tables) or result.catalog
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"sealberg {result.version}"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"Verification of {names[:200]}: {_headline(result)}"),
        element("style", Markup(style_sheet())),
    )
    now_ms = int(result.ended.timestamp() * 1000)
    body = element(
        "body",
        _header(result),
        element(
            "main",
            _verdict(result),
            _figures(result),
            _checked(result),
            _findings(result),
            _not_checked(result),
            [table_section(table, now_ms, at) for at, table in enumerate(result.tables, 1)],
            _not_hidden(),
        ),
        _footer(result),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _header(result: Verification) -> Markup:
    return element(
        "header",
        element("span", element("strong", "sealberg"), " verification report"),
        element("span", f"{moment(int(result.ended.timestamp() * 1000))}"),
    )


# -- the verdict --------------------------------------------------------------------------------------


def _tone(result: Verification) -> str:
    if any(finding.severity == "error" for finding in result.findings):
        return "bad"
    return "good" if result.verdict == "sound" and all(table.encrypted for table in result.tables) else "warn"


def _headline(result: Verification) -> str:
    if result.verdict == "incomplete":
        return "Not fully checked"
    if result.verdict == "findings":
        return "Problems found" if _tone(result) == "bad" else "Sound, with warnings"
    return "Sound" if all(table.encrypted for table in result.tables) else "Sound, not all encrypted"


def _verdict(result: Verification) -> Markup:
    tone = _tone(result)
    icon = element(
        "svg",
        element("title", {"good": "Passed", "warn": "Warning", "bad": "Failed"}[tone]),
        element("circle", cx=24, cy=24, r=21, class_="toned"),
        element("path", d=MARKS[tone], class_="mark"),
        viewBox="0 0 48 48",
        role="img",
    )
    return element(
        "section",
        icon,
        element("h1", _headline(result), id="verdict"),
        element("p", " ".join(_sentences(result))),
        class_=f"verdict {tone}",
        aria_labelledby="verdict",
    )


def _sentences(result: Verification) -> Iterator[str]:
    found = Counter(finding.severity for finding in result.findings)
    words = " and ".join(count(found[kind], kind) for kind in ("error", "warning") if found[kind])
    plain = sum(not table.encrypted for table in result.tables)
    if result.not_checked:
        yield f"{count(len(result.not_checked), 'check')} could not be made."
        yield f"The other checks found {words}." if words else "The other checks found nothing."
    elif words:
        yield f"Everything was checked; {words} {'was' if len(result.findings) == 1 else 'were'} found."
    else:
        yield f"Everything was checked in {count(len(result.tables), 'table')}, and nothing was found."
    if result.level == "fast":
        yield "Only headers and footers were read, so altered content was not looked for."
    if plain:
        yield f"{count(plain, 'table')} {'is' if plain == 1 else 'are'} not encrypted."


def _figures(result: Verification) -> Markup:
    total = result.totals
    keks = sum(len(table.keks) for table in result.tables)
    snapshots = [snapshot for table in result.tables for snapshot in table.snapshots]
    figures = (
        ("table" if len(result.tables) == 1 else "tables", f"{len(result.tables):,}"),
        (f"of {count(len(snapshots), 'snapshot')} checked", f"{sum(each.checked for each in snapshots):,}"),
        (f"of {count(total.files, 'file')} checked", f"{total.checked_files:,}"),
        ("authenticated", readable(total.checked_bytes)),
        ("blocks and modules", f"{total.units:,}"),
        ("key encryption keys", f"{keks:,}"),
    )
    cells = [element("div", element("dt", name), element("dd", text)) for name, text in figures]
    return element("dl", cells, class_="figures")


# -- what was checked, found, and not checked ---------------------------------------------------------


def _checked(result: Verification) -> Markup:
    seconds = (result.ended - result.started).total_seconds()
    pairs: list[tuple[str, Content]] = [
        ("Catalog", value(result.catalog)),
        ("Depth", [element("strong", result.level), f": {LEVELS[result.level]}"]),
        ("Snapshots", "all, of every branch and tag" if result.snapshot is None else f"only {result.snapshot}"),
        ("Started", result.started.strftime("%Y-%m-%d %H:%M:%S %Z")),
        ("Ended", f"{result.ended.strftime('%Y-%m-%d %H:%M:%S %Z')} ({seconds:,.1f} s)"),
        ("Checked by", f"sealberg {result.version}"),
    ]
    return _section("checked", "What was checked", facts(pairs))


def _findings(result: Verification) -> Markup:
    if not result.findings:
        return _section("findings", "Findings", element("p", "None."))
    order = {"error": 0, "warning": 1}
    rows = (_finding(finding) for finding in sorted(result.findings, key=lambda each: order.get(each.severity, 2)))
    heads = ("Severity", "Table", "Finding", "Snapshot")
    caption = "Error: damaged, altered, or readable without a key. Warning: sound, but something should be tidied up."
    return _section("findings", "Findings", data_table(caption, heads, rows, numbers=frozenset()))


def _finding(finding: Finding) -> Iterator[Markup]:
    yield element("td", pill(finding.severity, "bad" if finding.severity == "error" else "warn"))
    yield element("th", value(finding.table), scope="row", class_="name")
    file = element("span", code(finding.file), class_="file") if finding.file is not None else Markup()
    message = element("span", value(finding.message), class_="message")
    yield element("td", element("strong", finding.code), message, file)
    yield element("td", code(finding.snapshot_id) if finding.snapshot_id is not None else "", class_="tight")


def _not_checked(result: Verification) -> Markup:
    if not result.not_checked:
        return _section("not-checked", "What was not checked", element("p", "Nothing that was asked for."))
    heads = ("Table", "What", "Why")
    rows = (_missing(each) for each in result.not_checked)
    caption = "These checks could not be made; the verdict says nothing about them."
    return _section("not-checked", "What was not checked", data_table(caption, heads, rows, numbers=frozenset()))


def _missing(missing: NotChecked) -> Iterator[Markup]:
    yield element("th", value(missing.table), scope="row", class_="name")
    yield element("td", value(missing.what))
    yield element("td", value(missing.why))


# -- the end of the page ------------------------------------------------------------------------------


def _not_hidden() -> Markup:
    items = [element("li", element("strong", what), f": {words}") for what, words in NOT_HIDDEN]
    words = "Whoever can read the storage can see this, of every encrypted table, without a key:"
    return _section("not-hidden", "What encryption does not hide", joined(element("p", words), element("ul", items)))


def _section(id_: str, title: str, content: Markup) -> Markup:
    return element("section", element("h2", title, id=id_), content, aria_labelledby=id_)


def _footer(result: Verification) -> Markup:
    words = "This page holds no row and no key. It describes the tables as they were at the time of the check."
    return element("footer", element("p", f"{words} sealberg {result.version}."))
