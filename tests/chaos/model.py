"""The table as a dictionary, and what each operation does to it.

apply(operation, rows) -> rows          rows: key -> Row
digest(rows)                            the same for the same rows, whoever read them
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from chaos.plan import Operation, Row

Rows = dict[int, "Row"]


def apply(operation: Operation, rows: Mapping[int, Row]) -> Rows:
    """The rows after an operation that succeeded."""
    after = dict(rows)
    match operation.kind:
        case "delete":
            for key in operation.keys:
                after.pop(key, None)
        case "update":
            after |= {key: replace(after[key], v=operation.value) for key in operation.keys if key in after}
        case "overwrite" | "replace":
            gone = [row.k for row in rows.values() if (row.w, row.p) == (operation.worker, operation.partition)]
            for key in gone:
                del after[key]
    return after | {row.k: row for row in operation.rows}


def is_empty(operation: Operation, rows: Mapping[int, Row]) -> bool:
    """Would it change nothing? Then it need not make a snapshot."""
    return apply(operation, rows) == dict(rows)


def digest(rows: Iterable[Row]) -> str:
    values = sorted((row.k, row.p, row.v) for row in rows)
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]
