"""Output that all commands share: readable sizes and times, JSON, and a progress bar on terminals."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click._termui_impl import ProgressBar

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


# Control characters (C0, DEL, C1), which terminals execute, line separators, marks that change the direction of text,
# and lone surrogates, which cannot be encoded.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def safe(text: str) -> str:
    """Text from a file, safe for a terminal: control characters are escaped."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: Any) -> None:
    lines = json.dumps(value, indent=2, ensure_ascii=False).split("\n")  # inside strings, JSON escapes newlines
    click.echo("\n".join(map(safe, lines)))


def size(count: int) -> str:
    """1536 -> '1.5 KiB (1536 bytes)'."""
    if count < 1024:
        return f"{count} byte{'' if count == 1 else 's'}"
    value, units = float(count), ["KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and units:
        value, unit = value / 1024, units.pop(0)
    return f"{value:.1f} {unit} ({count} bytes)"


def moment(ms: int) -> str:
    """Milliseconds since the epoch as a readable time."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@contextlib.contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error while the block runs; nothing if standard error is not a terminal.

    Args:
        total: None if it is not known, as for a pipe.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    bar: ProgressBar[int] = click.progressbar(length=total, label=label, file=sys.stderr)
    with bar:
        yield bar.update


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Ends the block by an exception on SIGTERM, so that its temporary files are deleted, as on Ctrl-C."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
