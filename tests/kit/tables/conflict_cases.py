"""Three concurrent commits, for every pair of operations: A plans, B commits, C commits, then A commits.

    PLANNED       what A does, for each isolation level and each way to change rows
    SECOND        what B does: to the rows of A, to other rows of the same partition, or to another partition
    THIRD         what C does to the result of B: rewrites, merges, removes, expires or undoes it
    pairs()       every (B, C) that makes sense
    verdicts()    what Iceberg Java did, and differences() where sealberg decides otherwise; both are in
    vectors/conflicts

Every table begins with the commits of SEED: partitions a, b and c with three rows each. A always works in partition a.
Operations are plain dictionaries, because Java reads them as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Operation = dict[str, Any]
Verdicts = dict[str, dict[str, str]]

VERDICTS: Final = Path(__file__).parents[3] / "vectors" / "conflicts" / "java.json"
DIFFERENCES: Final = VERDICTS.with_name("differences.json")
LEVELS: Final = ("serializable", "snapshot")
MODES: Final = {"cow": "copy-on-write", "mor": "merge-on-read"}


def _rows(partition: str, *ids: int, value: str = "") -> list[list[Any]]:
    return [[number, partition, value] for number in ids]


def _operation(name: str, do: str, **more: Any) -> Operation:
    return {"name": name, "do": do, **more}


def _by_mode(name: str, do: str, **more: Any) -> list[Operation]:
    return [_operation(f"{name} {short}", do, mode=mode, **more) for short, mode in MODES.items()]


def _by_level(operations: list[Operation]) -> list[Operation]:
    return [{**each, "name": f"{each['name']} {level}", "level": level} for each in operations for level in LEVELS]


SEED: Final = [
    _operation("seed", "append", rows=[*_rows("a", 1, 2, 3), *_rows("b", 11, 12, 13)]),
    _operation("seed", "branch"),
    _operation("seed", "append", rows=_rows("c", 21, 22, 23)),
]

_ONE: Final = {"p": "a", "id": [1]}
PLANNED: Final = [
    _operation("append", "append", rows=_rows("a", 100, value="A")),
    _operation("append to branch", "append", rows=_rows("a", 100, value="A"), branch="old"),
    *_by_level([_operation("delete file", "delete_file", where={"p": "a"})]),
    *_by_level(_by_mode("delete row", "delete_rows", where=_ONE)),
    *_by_level(_by_mode("delete nothing", "delete_rows", where={"p": "a", "id": [5]})),
    *_by_level([_operation("overwrite", "overwrite", where={"p": "a"}, rows=_rows("a", 101, value="A"))]),
    *_by_level([_operation("overwrite row", "overwrite_rows", where=_ONE, rows=_rows("a", 101, value="A"))]),
    *_by_level([_operation("replace partitions", "replace_partitions", rows=_rows("a", 101, value="A"))]),
    *_by_level(_by_mode("upsert", "upsert", where={"id": [1, 102]}, rows=_rows("a", 1, 102, value="A"))),
    _operation("rewrite files", "rewrite", where={"p": "a"}),
    _operation("add column", "schema"),
    _operation("add partition field", "spec"),
    _operation("set property", "property", key="owner", value="A"),
    _operation("create tag", "tag"),
    _operation("remove branch", "remove_branch"),
]

SECOND: Final = [
    _operation("append matching", "append", rows=_rows("a", 1, 5, value="B")),
    _operation("append near", "append", rows=_rows("a", 7, value="B")),
    _operation("append far", "append", rows=_rows("b", 15, value="B")),
    _operation("delete same file", "delete_file", where={"p": "a"}),
    _operation("delete far file", "delete_file", where={"p": "b"}),
    *_by_mode("delete same row", "delete_rows", where=_ONE),
    *_by_mode("delete near row", "delete_rows", where={"p": "a", "id": [2]}),
    *_by_mode("delete far row", "delete_rows", where={"p": "b", "id": [12]}),
    *_by_mode("delete near and far row", "delete_rows", where={"id": [2, 12]}),
    _operation("overwrite same file", "overwrite", where={"p": "a"}, rows=_rows("a", 105, value="B")),
    _operation("overwrite far file", "overwrite", where={"p": "b"}, rows=_rows("b", 115, value="B")),
    _operation("replace same partition", "replace_partitions", rows=_rows("a", 105, value="B")),
    _operation("replace far partition", "replace_partitions", rows=_rows("b", 115, value="B")),
    *_by_mode("upsert near row", "upsert", where={"id": [2, 106]}, rows=_rows("a", 2, 106, value="B")),
    *_by_mode(
        "upsert near and far row",
        "upsert",
        where={"id": [2, 12]},
        rows=[*_rows("a", 2, value="B"), *_rows("b", 12, value="B")],
    ),
    _operation("rewrite same file", "rewrite", where={"p": "a"}),
    _operation("rewrite far file", "rewrite", where={"p": "b"}),
    _operation("rewrite manifests", "manifests"),
    _operation("add column", "schema"),
    _operation("add partition field", "spec"),
    _operation("set property", "property", key="owner", value="B"),
    _operation("create tag", "tag"),
    _operation("remove branch", "remove_branch"),
]

_UNRELATED: Final = _operation("unrelated", "append", rows=_rows("z", 90, value="C"))
THIRD: Final[dict[str, list[Operation]]] = {
    "nothing": [],
    "replace a far vector": [
        _operation("vector", "delete_rows", where={"p": "b", "id": [13]}, mode=MODES["mor"]),
    ],
    "merge manifests": [
        _operation("merge", "property", key="commit.manifest.min-count-to-merge", value="2"),
        _operation(
            "merge",
            "upsert",
            where={"id": [21, 90]},
            rows=[*_rows("c", 21, value="C"), *_rows("z", 90, value="C")],
            mode=MODES["mor"],
        ),
    ],
    "rewrite manifests": [_operation("manifests", "manifests")],
    "remove B's file": [_operation("remove", "remove_added")],
    "expire the start": [_operation("expire", "expire")],
    "append, expire the rest": [_UNRELATED, _operation("expire", "expire")],
    "roll back to the start": [_operation("rollback", "rollback", to=1)],
    "roll back before it": [_operation("rollback", "rollback", to=0)],
}

_ADDS_ROWS: Final = frozenset({"append", "overwrite", "replace_partitions", "upsert"})
_METADATA_ONLY: Final = frozenset({"schema", "spec", "property", "tag", "remove_branch"})
_AFTER_METADATA_ONLY: Final = frozenset(
    {"nothing", "replace a far vector", "append, expire the rest", "roll back before it"}
)


def pairs() -> list[dict[str, Any]]:
    """Every (B, C): its name, what B does, and the commits of C."""
    return [
        {"name": f"{second['name']} / {third}", "second": second, "third": operations}
        for second in SECOND
        for third, operations in THIRD.items()
        if _makes_sense(second, third)
    ]


def _makes_sense(second: Operation, third: str) -> bool:
    if third == "remove B's file":
        return second["do"] in _ADDS_ROWS
    return second["do"] not in _METADATA_ONLY or third in _AFTER_METADATA_ONLY


def by_second(second: str) -> list[dict[str, Any]]:
    """The pairs of one B."""
    return [pair for pair in pairs() if pair["second"]["name"] == second]


# -- what is kept ---------------------------------------------------------------------------------


def verdicts() -> Verdicts:
    """What Java did: for each (B, C), for each A."""
    return read_grouped(VERDICTS)


def differences() -> dict[str, Verdicts]:
    """The verdicts of sealberg that differ from Java's: for each reason, for each (B, C), for each A."""
    return {name: _ungrouped(grouped) for name, grouped in json.loads(DIFFERENCES.read_text()).items()}


def read_grouped(path: Path) -> Verdicts:
    return _ungrouped(json.loads(path.read_text()))


def write_grouped(path: Path, found: Verdicts) -> None:
    """Write one line for each verdict of a (B, C), with the operations of A that get it."""
    path.write_text(json.dumps(grouped(found), indent=1) + "\n")


def grouped(found: Verdicts) -> dict[str, dict[str, str]]:
    lines: dict[str, dict[str, str]] = {}
    for pair, by in found.items():
        for planned, verdict in by.items():
            line = lines.setdefault(pair, {})
            line[verdict] = f"{line[verdict]}, {planned}" if verdict in line else planned
    return lines


def _ungrouped(lines: dict[str, dict[str, str]]) -> Verdicts:
    return {
        pair: {planned: verdict for verdict, names in line.items() for planned in names.split(", ")}
        for pair, line in lines.items()
    }
