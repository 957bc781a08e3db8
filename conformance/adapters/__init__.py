"""Programs that the runner starts, one for each implementation; `serve` is what those in Python share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.programs import DONE, NOT_SUPPORTED, REFUSED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def serve(operations: Mapping[str, Callable[[Path], None]], refusals: tuple[type[Exception], ...]) -> None:
    """Do what the arguments say, or without arguments what each line on stdin says."""

    def answer(operation: str, folder: str) -> int:
        if operation not in operations:
            return NOT_SUPPORTED
        try:
            operations[operation](Path(folder))
        except refusals as error:
            print(error, file=sys.stderr)
            return REFUSED
        return DONE

    if len(sys.argv) > 1:
        sys.exit(answer(*sys.argv[1:]))
    for line in sys.stdin:
        print(answer(*line.rstrip("\n").split(" ", 1)), flush=True)


def optional(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def optional_number(path: Path) -> int | None:
    return int(path.read_text()) if path.exists() else None
