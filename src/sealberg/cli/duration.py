"""A length of time on the command line: 90s, 30m, 12h, 5d, 4w."""

from __future__ import annotations

import re
from datetime import timedelta
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
