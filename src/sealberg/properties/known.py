"""A name that somebody may set, and its fate.

    OBEYED      has its effect; a value that it cannot have is an error
    REFUSED     an error by name; the reason says what to use instead
    NO_EFFECT   accepted, because the rows are the same without it; the reason says why

A name that ends in a dot is a prefix. Below are the reasons that several tables give.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from sealberg.properties.values import Kind


class Fate(StrEnum):
    OBEYED = "obeyed"
    REFUSED = "refused"
    NO_EFFECT = "no effect"


class Known(NamedTuple):
    """One name.

    Args:
        reason: may be empty if the name is obeyed as Iceberg documents it.
        default: the value that counts if nobody sets the name; None if the name then has no effect, or Spark, Iceberg
            or the store decides.
        set_by: who may set the name, if not everybody who may set names of the same table.
        kind: what the value of a property of a table may be; None if it may be any text, or has a check of its own.
    """

    name: str
    fate: Fate
    reason: str = ""
    default: str | None = None
    set_by: str | None = None
    kind: Kind | None = None

    def covers(self, name: str) -> bool:
        return name == self.name or (self.name.endswith(".") and name.startswith(self.name))


OBEYED, REFUSED, NO_EFFECT = Fate.OBEYED, Fate.REFUSED, Fate.NO_EFFECT

ORC: Final = "sealberg neither reads nor writes ORC files"
VARIANT: Final = "sealberg has no variant columns"
VECTORS: Final = "rows are deleted by deletion vectors in Puffin files, the only form of version 3"
HIVE: Final = "of Hive catalogs"
SKEW: Final = "how far the clock may be behind the last change of a table; the catalog's value goes first"
_PLANNING: Final = "auto, local or distributed: whether the driver reads {} or Spark's tasks do, with their keys"
DATA_PLANNING: Final = _PLANNING.format("manifests of data files")
DELETE_PLANNING: Final = _PLANNING.format("manifests of delete files")
RETRY: Final = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")


def find(table: tuple[Known, ...], name: str) -> Known | None:
    return next((one for one in table if one.covers(name)), None)
