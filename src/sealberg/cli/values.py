"""How values are written on the command line.

90s, 30m, 12h, 5d, 4w                a length of time
2026-03-01, 2026-03-01T12:00Z        a moment, where a length of time before now may stand, too
134217728, 131072K, 128M, 0.125G     a number of bytes
1..2                                 a range of snapshots
a,b,c                                names
name=value                           an entry of a map
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click import Context, Parameter

UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Duration(click.ParamType[timedelta]):
    """A number and a unit, as a timedelta."""

    name = "AGE"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> timedelta:
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", str(value))
        if found is None:
            self.fail(f"{value!r} is not a length of time, expected a number and s, m, h, d or w: 12h, 5d", param, ctx)
        return timedelta(**{UNITS[found[2]]: float(found[1])})


class DurationOrMoment(click.ParamType["timedelta | datetime"]):
    """A length of time before now, or a moment; a moment without a time zone is UTC."""

    name = "AGE"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> timedelta | datetime:
        if not re.match(r"\d{4}-", str(value)):
            return Duration().convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a moment, expected 2026-03-01 or 2026-03-01T12:00Z", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class Hours(click.FloatRange):
    """A number of hours, as a timedelta."""

    def __init__(self) -> None:
        super().__init__(min=0)

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> Any:
        return timedelta(hours=super().convert(value, param, ctx))


class Size(click.ParamType[int]):
    """A number of bytes."""

    name = "size"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", str(value), re.I)
        if found is None:
            self.fail(f"{value!r} is not a size, expected a number of bytes, or one with K, M or G", param, ctx)
        return int(float(found[1]) * SIZES[found[2].upper()])


class Range(click.ParamType[tuple[int, int]]):
    """The first and the last of two snapshots."""

    name = "FROM..TO"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> tuple[int, int]:  # noqa: ARG002
        first, dots, last = str(value).partition("..")
        if not dots or not first.isdigit() or not last.isdigit():
            name = param.opts[0] if param is not None else "the range"
            raise click.UsageError(f"{name} is {value!r}, expected two snapshot ids as FROM..TO")
        return int(first), int(last)


class Names(click.ParamType[list[str]]):
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> list[str]:  # noqa: ARG002
        return [name.strip() for name in str(value).split(",")] if value else []


class Entry(click.ParamType[tuple[str, str]]):
    """An entry of a map."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> tuple[str, str]:  # noqa: ARG002
        name, sign, text = str(value).partition("=")
        if not sign:
            flag = param.opts[0] if param is not None else "the option"
            raise click.UsageError(f"{flag} {value}: expected NAME=VALUE")
        return name.strip(), text.strip()


def shown(value: Any) -> str:
    """A default value, as somebody would write it."""
    if isinstance(value, timedelta):
        days, rest = divmod(value, timedelta(days=1))
        return f"{days}d" if not rest else f"{value // timedelta(hours=1)}h"
    return str(value)
