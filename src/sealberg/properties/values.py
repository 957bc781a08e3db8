"""What the value of a table property may be. One `Kind` checks a value before it is committed, and reads it afterwards.

    SIZE("128")   128          SIZE("-1")    ConfigError ... must be positive, found -1
    FLAG("True")  True         FLAG("yes")   ConfigError ... is true or false, not yes

A value of another writer may be wrong all the same: it fails the statement that uses it, and no other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sealberg.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

_DIGITS: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)  # as Java's parseLong: no blank, no underscore
_METRICS: Final = re.compile(r"none|counts|full|truncate\(0*[1-9][0-9]{0,8}\)", re.IGNORECASE | re.ASCII)
INT, LONG = 2**31 - 1, 2**63 - 1


class Kind(NamedTuple):
    """How values of a name are read; `read` raises ValueError with the second half of a sentence."""

    read: Callable[[str], Any]

    def of(self, name: str, value: object) -> Any:
        """The value, read; `name` begins the message if it is wrong."""
        try:
            return self.read(str(value))
        except ValueError as error:
            raise ConfigError(f"{name} {error}") from None


def whole(least: int | None = 0, most: int = LONG) -> Kind:
    """A whole number, from `least` to `most`."""

    def read(text: str) -> int:
        if not _DIGITS.fullmatch(text) or len(text) > 20:
            raise ValueError(f"is a number, not {text!r}")
        number = int(text)
        if least == 1 and number < 1:
            raise ValueError(f"must be positive, found {text}")
        if least is not None and number < least:
            raise ValueError(f"must be {least} or more, found {text}")
        if not -most - 1 <= number <= most:
            raise ValueError(f"must be {most} or less, found {text}")
        return number

    return Kind(read)


def one_of(*names: str) -> Kind:
    """One of these names, in any case."""
    listed = f"{', '.join(names[:-1])} or {names[-1]}"

    def read(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"is {listed}, not {text}")
        return text.lower()

    return Kind(read)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"is true or false, not {text}")
    return text.lower() == "true"


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"must be a number, found {text!r}") from None
    if not 0 < number < 1:
        raise ValueError(f"must be between 0 and 1, found {text!r}")
    return number


def _metrics(text: str) -> str:
    if not _METRICS.fullmatch(text.strip()):
        raise ValueError(f"is none, counts, full or truncate(LENGTH), not {text}")
    return text


def _file_format(text: str) -> str:
    if text.lower() == "orc":
        raise UnsupportedError("data files are Parquet or Avro; ORC cannot be written")
    if text.lower() not in ("parquet", "avro"):
        raise ValueError(f"is parquet or avro, not {text.upper()}")
    return text.lower()


def _name_mapping(text: str) -> Any:
    from pyiceberg.table.name_mapping import parse_mapping_from_json

    try:
        return parse_mapping_from_json(text)
    except ValueError as error:
        raise ValueError(f"is a name mapping in JSON, which this is not: {str(error).splitlines()[0]}") from None


FLAG: Final = Kind(_flag)
SHARE: Final = Kind(_share)
SIZE: Final = whole(1)
COUNT: Final = whole(0, INT)
POSITIVE: Final = whole(1, INT)
MILLISECONDS: Final = whole(0)
RETRIES: Final = whole(None, INT)  # below zero is zero, as in Java
WAIT: Final = whole(None)
LEVEL: Final = whole(None, INT)
METRICS: Final = Kind(_metrics)
NAME_MAPPING: Final = Kind(_name_mapping)
MODE: Final = one_of("copy-on-write", "merge-on-read")
ISOLATION: Final = one_of("serializable", "snapshot")
DISTRIBUTION: Final = one_of("none", "hash", "range")
PLANNING: Final = one_of("auto", "local", "distributed")
FILE_FORMAT: Final = Kind(_file_format)
