"""An error as text, for the side that is not Python."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Its name, what it says, and what was noted about it on the way."""
    notes = getattr(error, "__notes__", [])
    return f"{type(error).__name__}: {error}" + "".join(f" ({note})" for note in notes)
