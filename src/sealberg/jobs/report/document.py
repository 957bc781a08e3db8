"""A page of any job: the frame, a verdict, sections, and how the page is written.

document(Frame(...), sections)   -> the text of an HTML file
write_page(text, path)           an existing file is replaced when the new one is whole
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sealberg.jobs.report.markup import Markup, element
from sealberg.jobs.report.style import style_sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
MARKS: Final = {
    "good": ("Passed", "M14 25l7 7 14-16"),
    "warn": ("Warning", "M24 13v14M24 35v.5"),
    "bad": ("Failed", "M16 16l16 16M32 16l-16 16"),
}


@dataclass(frozen=True)
class Frame:
    """What stands around the sections of a page.

    Attributes:
        title: of the window.
        kind: what the page is, such as "verification report".
        time: when its facts were true.
        tone: `good`, `warn` or `bad`.
        headline, words: the verdict, in a few words and in sentences.
        foot: the last line.
        version: of sealberg.
    """

    title: str
    kind: str
    time: str
    tone: str
    headline: str
    words: str
    foot: str
    version: str


def document(frame: Frame, sections: Iterable[Markup]) -> str:
    """The whole document."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"sealberg {frame.version}"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", frame.title),
        element("style", Markup(style_sheet())),
    )
    top = element(
        "header",
        element("span", element("strong", "sealberg"), f" {frame.kind}"),
        element("span", frame.time),
    )
    foot = element("footer", element("p", f"{frame.foot} sealberg {frame.version}."))
    body = element("body", top, element("main", _verdict(frame), list(sections)), foot)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def section(id_: str, title: str, content: Markup) -> Markup:
    """A section with a heading; `id_` is the heading's id."""
    return element("section", element("h2", title, id=id_), content, aria_labelledby=id_)


def write_page(text: str, path: str | os.PathLike[str]) -> None:
    """Write a page; an existing file is replaced when the new one is whole."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _verdict(frame: Frame) -> Markup:
    name, path = MARKS[frame.tone]
    icon = element(
        "svg",
        element("title", name),
        element("circle", cx=24, cy=24, r=21, class_="toned"),
        element("path", d=path, class_="mark"),
        viewBox="0 0 48 48",
        role="img",
    )
    return element(
        "section",
        icon,
        element("h1", frame.headline, id="verdict"),
        element("p", frame.words),
        class_=f"verdict {frame.tone}",
        aria_labelledby="verdict",
    )
