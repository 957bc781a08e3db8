"""How commands talk: sizes for people, one way to print JSON, a progress bar only where one can be seen."""

from __future__ import annotations

import contextlib
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def size(count: int) -> str:
    """1536 -> '1.5 KiB (1536 bytes)'."""
    if count < 1024:
        return f"{count} byte{'' if count == 1 else 's'}"
    value, units = float(count), ["KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and units:
        value, unit = value / 1024, units.pop(0)
    return f"{value:.1f} {unit} ({count} bytes)"


def moment(ms: int) -> str:
    """Milliseconds since the epoch, as people write a time."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@contextlib.contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while the block runs; nothing at all where nobody watches."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield bar.update
