"""Elements and text of the page. A string that enters an element is escaped; only `Markup` is taken as it is.

    element("td", name, class_="name")   ->  <td class="name">...</td>
    value("hr.salaries")                 ->  <bdi>hr.salaries</bdi>: text of others, which cannot turn its surroundings

Characters that nobody can see, that change the direction of text, or that pile up on each other are shown as \\u202e.
"""

from __future__ import annotations

import html
import unicodedata
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Content: TypeAlias = "str | Iterable[Content]"

VOID: Final = frozenset({"meta", "rect", "path", "line", "circle"})
INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
MARKS: Final = frozenset({"Mn", "Me"})
MOST_MARKS: Final = 2  # on one letter; real languages need no more
LONGEST: Final = 1200


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Any text as HTML that shows the text and does nothing else."""
    return text if isinstance(text, Markup) else Markup(html.escape(visible(text)))


def visible(text: str) -> str:
    """Text whose every character can be seen; very long text is cut, with its length."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}… ({len(text)} characters)"
    plain = text.isascii() and text.isprintable()  # nearly all texts
    return text if plain else "".join(_visible(text))


def _visible(text: str) -> Iterator[str]:
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in MARKS else 0
        hidden = category in INVISIBLE or marks > MOST_MARKS
        yield f"\\u{ord(character):04x}" if hidden else character


def element(name: str, /, *content: Content, **attributes: object) -> Markup:
    """An element. An attribute of None is left out; `class_` and `stroke_width` are `class` and `stroke-width`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID:
        return Markup(f"<{name}{given}>" if name == "meta" else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(*content)}</{name}>")


def joined(*content: Content) -> Markup:
    """Several pieces in a row."""
    return Markup("".join(escaped(each) if isinstance(each, str) else joined(*each) for each in content))


def value(text: object, **attributes: object) -> Markup:
    """Text of others, isolated: its direction does not change the text around it."""
    return element("bdi", str(text), **attributes)


def code(text: object) -> Markup:
    """An id, a path or a hash."""
    return element("code", value(text))


def svg_text(x: float, y: float, text: str, kind: str, **attributes: object) -> Markup:
    """Text in a picture; isolated, so that a name written from right to left stays where it is drawn."""
    content = element("tspan", text, direction="ltr", unicode_bidi="isolate")
    return element("text", content, x=x, y=y, class_=kind, **attributes)


def short(text: str, width: int) -> str:
    """Text cut in its middle to `width` columns; a wide character of East Asia takes two."""
    if len(text) > 4 * width:
        text = text[: 2 * width] + text[-2 * width :]
    text = visible(text)
    if columns(text) <= width:
        return text
    head: list[str] = []
    tail: list[str] = []
    left = width - 1
    front, back = iter(text), iter(reversed(text))
    while True:
        for side, rest in ((head, front), (tail, back)):
            character = next(rest)
            if left < columns(character):
                return "".join(head) + "…" + "".join(reversed(tail))
            left -= columns(character)
            side.append(character)


def columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """'1 file', '2,000 files'."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def moment(ms: int | None) -> str:
    """Milliseconds since the epoch as a time in UTC."""
    return _time(ms, "%Y-%m-%d %H:%M UTC")


def day(ms: int | None) -> str:
    """Milliseconds since the epoch as a date in UTC."""
    return _time(ms, "%Y-%m-%d")


def _time(ms: int | None, form: str) -> str:
    if ms is None:
        return "unknown"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):  # beyond the year 9999: from a file that somebody changed
        return "out of range"


def _text(given: object) -> str:
    return f"{given:.1f}".removesuffix(".0") if isinstance(given, float) else str(given)
