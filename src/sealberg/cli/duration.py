"""A length of time on the command line: 90s, 30m, 12h, 5d, 4w; or a moment: 2026-03-01, 2026-03-01T12:00Z."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click import Context, Parameter

UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class DurationType(click.ParamType[timedelta]):
    """A number and a unit, as a timedelta."""

    name = "AGE"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", str(value))
        if found is None:
            self.fail(f"{value!r} is not a length of time, expected a number and s, m, h, d or w: 12h, 5d", param, ctx)
        return timedelta(**{UNITS[found[2]]: float(found[1])})


DURATION: Final = DurationType()


class DurationOrMomentType(click.ParamType["timedelta | datetime"]):
    """A length of time before now, or a moment; a moment without a time zone is UTC."""

    name = "AGE"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> timedelta | datetime:
        if isinstance(value, datetime) or not re.match(r"\d{4}-", str(value)):
            return value if isinstance(value, datetime) else DURATION.convert(value, param, ctx)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a moment, expected 2026-03-01 or 2026-03-01T12:00Z", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


DURATION_OR_MOMENT: Final = DurationOrMomentType()
