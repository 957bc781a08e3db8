"""The key tree as a picture: which key opens which.

    MASTER KEY      KEYS THAT SEAL KEYS     SNAPSHOTS          FILES
    ┌────────┐      ┌──────────────┐   ┌─ 8213 main ──┐     ┌───────────┐
    │ hr     │──────│ KEK, active  │───┤              ├─────│ manifests │
    └────────┘      └──────────────┘   └─ 7731 ───────┘     │ data      │
                                                            └───────────┘
A table with many KEKs or snapshots shows the newest of them, and how many are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.jobs.key_tree import STATES
from sealberg.jobs.report.markup import Markup, count, day, element, joined, short, svg_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.jobs.findings import KekFacts, SnapshotFacts, TableFacts

WIDTH: Final = 960
TOP: Final = 30
MASTER: Final = (1, 170)  # x and width
KEK: Final = (223, 228)
SNAPSHOT: Final = (503, 242)
FILES: Final = (797, 162)
ROW: Final = 30
CARD: Final = 78
GAP: Final = 18
MOST_KEKS: Final = 8
MOST_SNAPSHOTS: Final = 5

TONES: Final = {
    "active": "good",
    "near-end": "warn",
    "retired": "calm",
    "past-end": "warn",
    "future": "bad",
    "no-timestamp": "bad",
}
KINDS: Final = (
    ("manifest lists", ("manifest-list",)),
    ("manifests", ("manifest",)),
    ("data files", ("data",)),
    ("delete files", ("position-deletes", "equality-deletes", "deletion-vectors")),
)
FILES_HEIGHT: Final = 38 + 22 * len(KINDS)


@dataclass(frozen=True, slots=True)
class Branch:
    """A KEK, or None for snapshots that no KEK opens, with its newest snapshots and how many more it has."""

    kek: KekFacts | None
    snapshots: tuple[SnapshotFacts, ...]
    more: int

    @property
    def rows(self) -> int:
        return len(self.snapshots) + bool(self.more)

    @property
    def height(self) -> int:
        return max(CARD, self.rows * ROW)


def key_picture(table: TableFacts) -> Markup:
    """The picture, with a description for those who do not see it."""
    branches, hidden = _branches(table)
    tops: list[float] = []
    y = TOP
    for branch in branches:
        tops.append(y)
        y += branch.height + GAP
    # The card of files is higher than a KEK with few snapshots: the tree is drawn in its middle then.
    drawn = max(y - GAP, TOP + FILES_HEIGHT)
    tops = [top + (drawn - y + GAP) / 2 for top in tops]
    height = drawn + (24 if hidden else 1)
    middle = (TOP + drawn) / 2
    parts: list[Markup] = []
    for branch, top in zip(branches, tops, strict=True):
        parts += _links(branch, top, middle)
    for branch, top in zip(branches, tops, strict=True):
        parts += _branch(branch, top, table)
    if hidden:
        parts.append(svg_text(KEK[0], height - 6, f"and {count(hidden, 'older key')}, listed below", "small"))
    return element(
        "svg",
        element("title", "Key tree"),
        element("desc", _description(table)),
        _heads(),
        parts,
        _master(table, middle),
        _files(table, middle),
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
    )


def _branches(table: TableFacts) -> tuple[list[Branch], int]:
    keks = sorted(table.keks, key=lambda kek: kek.made_ms or 0, reverse=True)
    known = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots}
    opened = {each for kek in keks for each in kek.snapshots}
    lost = [snapshot for snapshot in table.snapshots if snapshot.snapshot_id not in opened]
    branches = [_newest(kek, [known[each] for each in kek.snapshots if each in known]) for kek in keks[:MOST_KEKS]]
    return [*branches, *([_newest(None, lost)] if lost else [])], max(0, len(keks) - MOST_KEKS)


def _newest(kek: KekFacts | None, snapshots: Sequence[SnapshotFacts]) -> Branch:
    newest = sorted(snapshots, key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
    return Branch(kek, tuple(newest[:MOST_SNAPSHOTS]), max(0, len(newest) - MOST_SNAPSHOTS))


def _description(table: TableFacts) -> str:
    keks = "; ".join(
        f"key {kek.key_id}, {STATES[kek.state]}, opens {count(len(kek.snapshots), 'snapshot')}" for kek in table.keks
    )
    return f"The master key {table.key_id} wraps {count(len(table.keks), 'key encryption key')}. {keks}"


def _heads() -> Iterator[Markup]:
    heads = ("MASTER KEY", "KEY ENCRYPTION KEYS", "SNAPSHOTS", "FILES")
    for (x, _), head in zip((MASTER, KEK, SNAPSHOT, FILES), heads, strict=True):
        yield svg_text(x, 14, head, "head")


def _links(branch: Branch, top: float, middle: float) -> Iterator[Markup]:
    centre = top + branch.height / 2
    kind = "link" if branch.kek is not None else "broken"
    if branch.kek is not None:
        yield _curve(sum(MASTER), middle, KEK[0], centre, "link")
    first = centre - branch.rows * ROW / 2 + ROW / 2
    for at in range(branch.rows):
        y = first + at * ROW
        yield _curve(sum(KEK), centre, SNAPSHOT[0], y, kind)
        yield _curve(sum(SNAPSHOT), y, FILES[0], middle, "link")


def _branch(branch: Branch, top: float, table: TableFacts) -> Iterator[Markup]:
    centre = top + branch.height / 2
    yield _kek(branch.kek, centre - CARD / 2)
    first = centre - branch.rows * ROW / 2
    for at, snapshot in enumerate(branch.snapshots):
        yield _snapshot(snapshot, first + at * ROW, current=snapshot.snapshot_id == table.current_snapshot_id)
    if branch.more:
        y = first + len(branch.snapshots) * ROW
        yield _box(SNAPSHOT, y + 3, ROW - 6, "faint", _class="calm")
        yield svg_text(SNAPSHOT[0] + 12, y + 19, f"and {count(branch.more, 'older snapshot')}", "small")


def _master(table: TableFacts, middle: float) -> Markup:
    x, top = MASTER[0] + 14, middle - CARD / 2
    return element(
        "g",
        element("title", table.key_id or "no master key"),
        _box(MASTER, top, CARD, "toned"),
        svg_text(x, top + 25, "in the KMS", "small"),
        svg_text(x, top + 45, short(table.key_id or "none", 19), "id strong"),
        svg_text(x, top + 64, "never leaves it", "small"),
        class_="calm",
    )


def _kek(kek: KekFacts | None, top: float) -> Markup:
    x = KEK[0] + 14
    if kek is None:
        return element(
            "g",
            _box(KEK, top, CARD, "faint"),
            svg_text(x, top + 35, "No key", "tone strong"),
            svg_text(x, top + 54, "opens these snapshots", "small"),
            class_="bad",
        )
    return element(
        "g",
        element("title", f"key encryption key {kek.key_id}"),
        _box(KEK, top, CARD, "toned"),
        _box((KEK[0], 5), top, CARD, "solid"),
        svg_text(x, top + 24, STATES[kek.state], "tone strong"),
        svg_text(x, top + 45, short(kek.key_id, 27), "id"),
        svg_text(x, top + 64, f"made {day(kek.made_ms)}, seals {count(kek.list_keys, 'key')}", "small"),
        class_=TONES[kek.state],
    )


def _snapshot(snapshot: SnapshotFacts, top: float, *, current: bool) -> Markup:
    names = ", ".join(snapshot.refs)
    x = SNAPSHOT[0]
    return element(
        "g",
        element(
            "title", f"snapshot {snapshot.snapshot_id}, {day(snapshot.timestamp_ms)}, {names or 'no branch or tag'}"
        ),
        _box(SNAPSHOT, top + 3, ROW - 6, "card"),
        element("circle", cx=x + 12, cy=top + ROW / 2, r=3.5, class_="solid" if current else "track"),
        svg_text(x + 24, top + 19, day(snapshot.timestamp_ms), "small"),
        svg_text(x + 100, top + 19, short(names or str(snapshot.snapshot_id), 19), "id strong" if names else "id"),
        class_="good",
    )


def _files(table: TableFacts, middle: float) -> Markup:
    files = {kind.kind: kind.files for kind in table.kinds}
    lines = [(label, sum(files.get(kind, 0) for kind in kinds)) for label, kinds in KINDS]
    top = middle - FILES_HEIGHT / 2
    x, width = FILES
    rows = [
        joined(
            svg_text(x + 14, top + 24 + 22 * at, label, "small"),
            svg_text(x + width - 14, top + 24 + 22 * at, f"{number:,}", "strong", text_anchor="end"),
        )
        for at, (label, number) in enumerate(lines)
    ]
    note = svg_text(x + 14, top + FILES_HEIGHT - 12, "each with its own key", "small")
    return element("g", _box(FILES, top, FILES_HEIGHT, "card"), rows, note)


def _box(column: tuple[float, float], top: float, height: float, kind: str, _class: str | None = None) -> Markup:
    x, width = column
    box = element("rect", x=x, y=top, width=width, height=height, rx=min(4, width / 2), class_=kind)
    return box if _class is None else element("g", box, class_=_class)


def _curve(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    bend = (x1 + x2) / 2
    return element(
        "path", d=f"M{x1:.1f} {y1:.1f}C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}", class_=kind
    )
