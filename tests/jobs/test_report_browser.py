"""The report page in a real browser: on a desk and on a phone, light, dark and printed, with and without findings."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from kit.programs.chromium import Browser, chromium
from kit.tables import verifications
from sealberg.jobs.report import write_report
from sealberg.jobs.report.style import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TONES = {"sound": "good", "small": "good", "with_findings": "bad", "incomplete": "warn", "hostile": "bad"}
# The part of the page that is wider than the window; what scrolls inside its own frame does not count.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SPILLED = """[...document.querySelectorAll('main *, header *, footer *')].filter(e => !e.closest('.wide')
    && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
SPILLED_TEXT = """(() => {
    const right = element => element.getBoundingClientRect().right
    const limit = text => {
        const boxes = [...text.parentNode.querySelectorAll(':scope > rect')]
        const boxed = text.parentNode.tagName === 'g' && boxes.length
        return boxed ? Math.max(...boxes.map(right)) : right(text.closest('svg'))
    }
    const texts = [...document.querySelectorAll('figure svg text')]
    const below = text => text.getBoundingClientRect().bottom > text.closest('svg').getBoundingClientRect().bottom + 1
    return texts.filter(text => right(text) > limit(text) + 1 || below(text)).map(text => text.textContent)
})()"""
EDGE = "(r => [r.left + 3, r.top + r.height / 2])(document.querySelector('.verdict').getBoundingClientRect())"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in TONES}
    for name, path in made.items():
        write_report(getattr(verifications, name)(), path)
    return made


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("name", ["sound", "with_findings", "incomplete", "hostile"])
def test_the_page_fits_and_shows_its_verdict_in_colour(
    name: str, width: int, dark: bool, browser: Browser, pages: dict[str, Path]
) -> None:
    browser.show(pages[name], width=width, dark=dark)
    assert (browser.evaluate(OVERFLOW), browser.evaluate(SPILLED)) == (0, [])
    colours = DARK if dark else LIGHT
    assert browser.pixel(2, 2) == colours["paper"]
    assert browser.pixel(*browser.evaluate(EDGE)) == colours[TONES[name]]


@pytest.mark.parametrize("name", TONES)
def test_the_page_runs_nothing_and_asks_for_nothing(name: str, browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages[name], width=1280)
    assert browser.evaluate("document.title").startswith("Verification of ")
    assert browser.evaluate("document.scripts.length + document.images.length + document.links.length") == 0
    assert [each["request"]["url"] for each in browser.names("Network.requestWillBeSent")] == [pages[name].as_uri()]
    assert browser.names("Page.javascriptDialogOpening") == browser.names("Log.entryAdded") == []


def test_the_policy_of_the_page_stops_a_script_that_got_in(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_report(verifications.sound(), page)
    page.write_text(
        page.read_text(encoding="utf-8").replace("</main>", "<script>document.title='owned'</script></main>")
    )
    browser.show(page, width=1280)
    assert browser.evaluate("document.title") != "owned"


def test_paper_is_white_even_for_a_dark_screen(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["with_findings"], width=794, dark=True, media="print")
    assert browser.pixel(2, 2) == LIGHT["paper"]
    assert browser.pixel(*browser.evaluate(EDGE)) == LIGHT["bad"]
    pdf = base64.b64decode(browser.call("Page.printToPDF", preferCSSPageSize=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 1 <= pdf.count(b"/Type /Page\n") <= 4


def test_pictures_and_headings_have_names_for_those_who_hear_the_page(browser: Browser, pages: dict[str, Path]) -> None:
    browser.show(pages["with_findings"], width=1280)
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    heard = {(node["role"]["value"], node.get("name", {}).get("value")) for node in nodes if not node["ignored"]}
    assert {
        ("image", "Failed"),
        ("image", "Key tree"),
        ("image", "Ages of key encryption keys"),
        ("heading", "Problems found"),
        ("heading", "Table hr.salaries"),
        ("columnheader", "Severity"),
    } <= heard


def test_text_stays_inside_its_box_and_its_picture(browser: Browser, pages: dict[str, Path]) -> None:
    for name in ("sound", "small", "hostile"):
        browser.show(pages[name], width=1280)
        assert browser.evaluate(SPILLED_TEXT) == []
