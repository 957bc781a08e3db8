"""The ages of KEKs as a picture: one bar for each KEK, from its making to the end of its lifespan.

2024      2025      2026   now  2027
├─────────┼─────────┼───────│───┤
████████████████████████░░░░│░░░        seals new keys until a newer KEK is made
                    ████████│░░░░░░     the solid part: in use; the dashed part: not any more, or not yet
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from sealberg.jobs.key_tree import STATES, age_text, state_text
from sealberg.jobs.report.key_picture import TONES
from sealberg.jobs.report.markup import Markup, count, day, element, short, svg_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.jobs.findings import KekFacts

WIDTH: Final = 960
LEFT: Final = 250
RIGHT: Final = 946
TOP: Final = 34
LANE: Final = 46
BAR: Final = 14
MOST_LANES: Final = 10
DAY: Final = 86_400_000
FIRST_MS: Final = 0
LAST_MS: Final = 253_370_764_800_000  # the year 9999


def time_line(keks: tuple[KekFacts, ...], now_ms: int) -> Markup | None:
    """The picture; None if no KEK has a time that can be drawn."""
    dated = sorted(
        (kek for kek in keks if kek.made_ms is not None and FIRST_MS <= kek.made_ms < LAST_MS),
        key=lambda kek: kek.made_ms or 0,
        reverse=True,
    )
    if not dated:
        return None
    shown, hidden = dated[:MOST_LANES], max(0, len(dated) - MOST_LANES)
    ends = [min(kek.expires_ms or LAST_MS, LAST_MS) for kek in shown]
    scale = Scale(min(now_ms, *(kek.made_ms or 0 for kek in shown)), max(now_ms, *ends))
    height = TOP + LANE * len(shown) + (20 if hidden else 4)
    return element(
        "svg",
        element("title", "Ages of key encryption keys"),
        element(
            "desc", "; ".join(f"key {kek.key_id}: {age_text(kek, now_ms)}, {state_text(kek, now_ms)}" for kek in shown)
        ),
        _axis(scale, scale.x(now_ms), height - (20 if hidden else 4)),
        [_lane(kek, at, scale, now_ms, shown) for at, kek in enumerate(shown)],
        _now(scale, now_ms, height - (20 if hidden else 4)),
        svg_text(0, height - 4, f"and {count(hidden, 'older key')}, listed below", "small") if hidden else Markup(),
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
    )


class Scale:
    """From a time to a place on the line; a twentieth of the line is left free at each end."""

    def __init__(self, first_ms: int, last_ms: int) -> None:
        margin = max(DAY, (last_ms - first_ms) // 20)
        self.first, self.last = first_ms - margin, last_ms + margin

    def x(self, ms: int) -> float:
        return LEFT + (RIGHT - LEFT) * (ms - self.first) / (self.last - self.first)

    def ticks(self) -> Iterator[tuple[int, str]]:
        """The beginnings of years, quarters, months or weeks, as the length of the line allows."""
        first, last = (datetime.fromtimestamp(min(max(0, ms), LAST_MS) / 1000, UTC) for ms in (self.first, self.last))
        days = (last - first).days
        if days <= 120:
            start = datetime(first.year, first.month, first.day, tzinfo=UTC)
            times = [start + timedelta(days=each) for each in range(7, days + 1, 7)]
            form = "%Y-%m-%d"
        else:
            step = max(1, days // 365 // 8)
            months = range(1, 13) if days <= 400 else (1, 4, 7, 10) if days <= 1500 else (1,)
            years = range(max(1970, first.year), last.year + 1, step)
            times = [datetime(year, month, 1, tzinfo=UTC) for year in years for month in months]
            form = "%Y-%m"
        for time in times:
            at = int(time.timestamp() * 1000)
            if self.first <= at <= self.last:
                yield at, str(time.year) if (time.month, time.day) == (1, 1) else time.strftime(form)


def _axis(scale: Scale, now: float, bottom: float) -> Iterator[Markup]:
    """A line for each tick; labels that would touch each other or the flag at `now` are left out."""
    taken = 0.0
    for at, label in scale.ticks():
        x = scale.x(at)
        yield element("line", x1=x, y1=TOP - 8, x2=x, y2=bottom, class_="grid")
        if x - taken > 64 and abs(x - now) > 44:
            yield svg_text(x, TOP - 16, label, "small", text_anchor="middle")
            taken = x


def _lane(kek: KekFacts, at: int, scale: Scale, now_ms: int, newer: list[KekFacts]) -> Markup:
    made, end = kek.made_ms or 0, min(kek.expires_ms or LAST_MS, LAST_MS)
    successor = newer[at - 1].made_ms if at and newer[at - 1].master_key_id == kek.master_key_id else None
    used = max(made, min(end, now_ms, successor if successor is not None else end))
    y = TOP + LANE * at + 12
    bars = [
        element("rect", x=scale.x(a), y=y, width=max(3.0, scale.x(b) - scale.x(a)), height=BAR, rx=2, class_=kind)
        for a, b, kind in ((used, end, "faint"), (made, used, "solid"))
        if b > a or kind == "solid"
    ]
    return element(
        "g",
        element("title", f"key {kek.key_id}: made {day(made)}, seals new keys until {day(end)} at the latest"),
        svg_text(0, y + 4, short(kek.key_id, 29), "id"),
        svg_text(0, y + 21, f"{age_text(kek, now_ms)}, {STATES[kek.state]}", "small"),
        bars,
        class_=TONES[kek.state],
    )


def _now(scale: Scale, now_ms: int, bottom: float) -> Iterator[Markup]:
    x = scale.x(now_ms)
    yield element("line", x1=x, y1=TOP - 8, x2=x, y2=bottom, class_="now")
    yield element("rect", x=x - 20, y=TOP - 33, width=40, height=22, rx=3, class_="flag")
    yield svg_text(x, TOP - 17, "now", "on-flag", text_anchor="middle")
