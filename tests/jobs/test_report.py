"""The report page as text: complete, well formed, accessible, and inert whatever names a table has."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import sealberg
from kit.tables import verifications
from sealberg.cli.console import safe
from sealberg.jobs.report import page, write_report
from sealberg.jobs.report.markup import columns, escaped, short, visible
from sealberg.jobs.report.style import DARK, LIGHT

NAMES = ["sound", "with_findings", "incomplete", "hostile"]
WORD = re.compile(r"[\w-]+")
TAGS = WORD.findall(
    "html head meta title style body header main footer section h1 h2 h3 p span strong code bdi div dl dt dd ul li "
    "figure figcaption table caption thead tbody tr th td svg desc g rect path line circle text tspan"
)
ATTRIBUTES = WORD.findall(
    "lang charset http-equiv content name id class role scope tabindex aria-label aria-labelledby aria-hidden viewbox "
    "x y x1 y1 x2 y2 cx cy r rx d width height text-anchor direction unicode-bidi"
)


class Outline(HTMLParser):
    """What a page is made of; fails where an element is not closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def made(name: str) -> Outline:
    return Outline(page(getattr(verifications, name)()))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_made_of_harmless_elements_only(name: str) -> None:
    outline = made(name)
    assert {tag for tag, _ in outline.tags} <= set(TAGS)
    assert {key for _, attributes in outline.tags for key in attributes} <= set(ATTRIBUTES)


def test_hostile_names_are_text_on_the_page() -> None:
    text = page(verifications.hostile())
    outline = Outline(text)
    assert outline.text.count(verifications.SCRIPT) >= 10
    assert "pay\\u202e\\u2066roll\\u200b\\ufeff\\u001b[2J\\ue0041" in outline.text
    unseen = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")}
    assert unseen == {"\n"}
    assert "\u0301" * 3 not in text


def test_a_hostile_table_is_verified_and_its_report_is_inert(tmp_path: Path) -> None:
    evil = "<script>alert(1)<\\script>\u202e"
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/lake"}
    with sealberg.load_catalog("evil", **settings, **kms) as catalog:
        catalog.create_namespace("hr")
        rows = pa.table({evil: [1, 2, 3]})
        properties = {"encryption.key-id": "hr", evil: evil}
        table = catalog.create_table(("hr", evil), rows.schema, f"file://{tmp_path}/t", properties=properties)
        table.append(rows)
        table.manage_snapshots().create_tag(table.metadata.snapshots[-1].snapshot_id, evil).commit()
        file = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file://"))
        file.write_bytes(file.read_bytes()[:-1])
        (tmp_path / "t" / "data" / f"{evil.replace('/', '')}.csv").write_text(evil)
        result = sealberg.jobs.verify.plan(table, catalog=catalog).execute()
    assert {finding.code for finding in result.findings} >= {"plaintext"}
    outline = Outline(page(result))
    assert {tag for tag, _ in outline.tags} <= set(TAGS)
    assert outline.text.count("<script>alert(1)<\\script>\\u202e") >= 4


def test_everything_that_a_terminal_must_not_see_is_also_hidden_from_a_page() -> None:
    for number in (*range(0x3000), *range(0xD800, 0xE000), 0xFEFF):
        if (character := chr(number)) != safe(character):
            assert visible(character) == safe(character)


def test_a_text_is_escaped_in_elements_and_in_attributes() -> None:
    assert escaped("""<a href='x' title="y">&""") == "&lt;a href=&#x27;x&#x27; title=&quot;y&quot;&gt;&amp;"
    assert escaped("a" * 5000).endswith("… (5000 characters)")


@pytest.mark.parametrize("width", [3, 8, 20])
@pytest.mark.parametrize("text", ["", "short", "a" * 50, "給与" * 20, "給" + "a" * 9])
def test_a_short_text_fits_and_keeps_both_ends(text: str, width: int) -> None:
    found = short(text, width)
    assert columns(found) <= width
    assert found == text or ("…" in found and found[0] == text[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_page_can_be_read_without_seeing_it(name: str) -> None:
    outline = made(name)
    kinds = [tag for tag, _ in outline.tags]
    assert outline.tags[0] == ("html", {"lang": "en"})
    headings = [int(tag[1]) for tag in kinds if re.fullmatch("h[1-6]", tag)]
    assert headings.count(headings[0]) == headings[0] == 1
    assert all(lower - upper <= 1 for upper, lower in pairwise(headings))
    assert all("scope" in attributes for tag, attributes in outline.tags if tag == "th")
    pictures = [at for at, (tag, attributes) in enumerate(outline.tags) if tag == "svg" and "role" in attributes]
    assert all(kinds[at + 1] == "title" for at in pictures)
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = {attributes["aria-labelledby"] for _, attributes in outline.tags if "aria-labelledby" in attributes}
    assert named <= set(ids)


def test_a_page_says_what_was_checked_by_whom_and_against_what() -> None:
    result = verifications.with_findings()
    text = made("with_findings").text
    table = result.tables[0]
    for words in (
        "Problems found",
        "2 errors and 2 warnings were found",
        "sealberg 0.4.0",
        "2026-11-17 09:30:12 UTC",
        "prod",
        "every block of AGS1 files and every module of Parquet files",
        table.metadata_location,
        verifications.HASH,
        *(kek.key_id for kek in table.keks),
        *(part for each in result.findings for part in (each.code, each.message, each.file) if part is not None),
        "What encryption does not hide",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sound", "Everything was checked in 1 table, and nothing was found."),
        ("incomplete", "1 check could not be made. The other checks found nothing. 1 table is not encrypted."),
        ("incomplete", "the KMS did not answer within 30 s"),
    ],
)
def test_the_verdict_says_neither_more_nor_less_than_the_result(name: str, words: str) -> None:
    assert words in made(name).text


def test_a_fast_check_does_not_claim_to_be_a_full_one() -> None:
    text = Outline(page(replace(verifications.sound(), level="fast"))).text
    assert "Only headers and footers were read, so altered content was not looked for." in text


def test_only_warnings_and_plain_tables_are_no_clean_bill() -> None:
    found = verifications.with_findings()
    warned = replace(found, findings=tuple(each for each in found.findings if each.severity == "warning"))
    assert 'class="verdict warn"' in page(warned)
    plain = replace(found, findings=(), tables=verifications.incomplete().tables)
    assert 'class="verdict warn"' in page(plain)
    assert "Sound, not all encrypted" in page(plain)


def test_a_hash_that_differs_is_shown_beside_the_other() -> None:
    table = verifications.salaries(catalog_hash="b3RoZXI=")
    text = Outline(page(replace(verifications.sound(), tables=(table,)))).text
    assert "not those that the catalog vouches for" in text
    assert verifications.HASH in text
    assert "b3RoZXI=" in text


def test_snapshots_that_no_key_opens_are_drawn_apart() -> None:
    table = verifications.salaries(keks=verifications.salaries().keks[:1])
    assert "opens these snapshots" in page(replace(verifications.sound(), tables=(table,)))


def test_a_long_life_is_drawn_in_part_and_listed_in_full() -> None:
    snapshots = tuple(verifications.snapshot(at, at) for at in range(2000))
    keks = tuple(verifications.kek(f"kek-{at}", at * 30, "retired", *snapshots[at::300]) for at in range(300))
    table = verifications.salaries(snapshots=snapshots, keks=keks)
    text = page(replace(verifications.sound(), tables=(table,)))
    assert text.count("<rect") < 120
    assert "and 292 older keys, listed below" in text
    assert all(f"<code><bdi>kek-{at}</bdi></code>" in text for at in range(300))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_has_enough_contrast(colours: dict[str, str]) -> None:
    pairs = [(text, ground) for text in ("ink", "muted") for ground in ("paper", "panel")]
    pairs += [("muted", f"{tone}-soft") for tone in ("accent", "good", "warn", "bad")]
    pairs += [(tone, ground) for tone in ("accent", "good", "warn", "bad") for ground in ("paper", f"{tone}-soft")]
    pairs += [("paper", "ink")]
    low = {pair: ratio for pair in pairs if (ratio := contrast(*(colours[name] for name in pair))) < 4.5}
    assert low == {}


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_a_report_replaces_an_older_one_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "audit.html"
    write_report(verifications.sound(), target)
    before = target.read_text(encoding="utf-8")
    assert before == page(verifications.sound())
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_report(verifications.with_findings(), target)
    assert [path.name for path in tmp_path.iterdir()] == ["audit.html"]
    assert target.read_text(encoding="utf-8") == before
