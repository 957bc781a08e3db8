"""The figures as an HTML page: one bar for each, whose length is the value in relation to its bound."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.figures import Figure

STYLE = """
body { font: 15px/1.4 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
h1 { font-size: 1.3em } p.machine { color: #666 }
.figure { display: grid; grid-template-columns: 1fr 22em; gap: 0 1em; margin: .5em 0; align-items: center }
.figure small { color: #777; grid-column: 1 }
.track { position: relative; height: 1.3em; background: #eee; grid-row: 1 / span 2; grid-column: 2 }
.bar { position: absolute; inset: 0 auto 0 0; background: #3a7d44 } .missed .bar { background: #c0392b }
.bound { position: absolute; top: -3px; bottom: -3px; width: 2px; background: #222 }
.curve { grid-column: 2; margin: .3em 0; border-left: 1px solid #777; border-bottom: 1px solid #777 }
.value { position: absolute; left: .4em; color: #fff; text-shadow: 0 0 3px #000; line-height: 1.3em }
"""


def page(figures: Sequence[Figure], machine: Mapping[str, str]) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in machine.items())
    missed = [one for one in figures if not one.kept]
    said = f"{len(figures) - len(missed)} of {len(figures)} figures kept" + (
        f"; missed: {'; '.join(one.name for one in missed)}" if missed else ""
    )
    bars = "\n".join(map(_bar, figures))
    return (
        f"<!doctype html><meta charset=utf-8><title>sealberg, measured</title><style>{STYLE}</style>\n"
        f"<h1>sealberg, measured</h1><p class=machine>{escape(facts)}</p><p>{escape(said)}</p>\n{bars}\n"
    )


def _bar(one: Figure) -> str:
    scale = 100 / (1.5 * max(one.bound, 1e-9))  # the bound is at two thirds of the width; bars end at the edge
    width, mark = min(100.0, one.value * scale), one.bound * scale
    sign = "at least" if one.at_least else "at most"
    return (
        f"<div class='figure {'kept' if one.kept else 'missed'}'><span>{escape(one.name)}</span>"
        f"<small>{sign} {one.bound:g} {escape(one.unit)}. {escape(one.note)}</small>"
        f"<div class=track><div class=bar style='width:{width:.1f}%'></div>"
        f"<div class=bound style='left:{mark:.1f}%'></div><span class=value>{one.value:.2f}</span></div>"
        f"{_curve(one.points)}</div>"
    )


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """The values over the sizes, both from 0, and the straight line through the last point: linear growth."""
    if not points:
        return ""
    widest, highest = points[-1][0], max(value for _, value in points)
    drawn = " ".join(f"{200 * size / widest:.1f},{60 - 56 * value / highest:.1f}" for size, value in points)
    end = 60 - 56 * points[-1][1] / highest
    return (
        "<svg class=curve width=204 height=64 viewBox='-2 -2 204 64'>"
        f"<line x1=0 y1=60 x2=200 y2={end:.1f} stroke='#bbb' stroke-dasharray='3 3'/>"
        f"<polyline points='{drawn}' fill=none stroke='#3a7d44' stroke-width=2 /></svg>"
    )
