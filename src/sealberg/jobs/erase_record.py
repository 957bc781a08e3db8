"""The record of an erasure, for whoever must show that a person was forgotten, without naming the person.

    begun      written before anything is erased, with the tables
    finished   the same file, with what was done in each, in numbers

In the place of the value is a salted hash, by scrypt: whoever knows the value can show that the record is about it. A
value of few possibilities, such as a number of a customer, can be guessed by trying all: keep the record like the list
of customers.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from sealberg.jobs.record import digest_of, sealed, write_files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from sealberg.jobs.record import Sealer

COST: Final = 1 << 15  # of scrypt: 32 MiB and a tenth of a second for each try
MEMORY: Final = 64 << 20


@dataclass(frozen=True)
class HashedValue:
    """A salted hash of the value, or of the text of the filter."""

    of_what: str
    salt: str
    hash: str
    cost: int = COST

    @classmethod
    def of(cls, of_what: str, text: str) -> Self:
        salt = os.urandom(16)
        return cls(of_what, salt.hex(), _scrypt(text, salt, COST))


def is_about(document: Mapping[str, Any], text: str) -> bool:
    """Whether a record of an erasure is about this value, or this filter."""
    known = document.get("value")
    if not isinstance(known, dict):
        return False
    try:
        found = _scrypt(text, bytes.fromhex(known["salt"]), min(int(known["cost"]), COST))
    except (KeyError, TypeError, ValueError):
        return False
    return hmac.compare_digest(found, str(known.get("hash")))


def _scrypt(text: str, salt: bytes, cost: int) -> str:
    return hashlib.scrypt(text.encode(), salt=salt, n=cost, r=8, p=1, maxmem=MEMORY, dklen=32).hex()


@dataclass(frozen=True)
class TableErased:
    """What was done in one table, in numbers.

    Attributes:
        status: erase; without: it never had the column; unsearched, failed: it may still have the rows.
        still: how many things still hold the rows, or may.
    """

    table: str
    table_uuid: str
    status: str
    exit_code: int
    proved: bool = False
    rows: int = 0
    files: int = 0
    rewritten: int = 0
    snapshots: int = 0
    tags: int = 0
    removed: int = 0
    still: int = 0


@dataclass(frozen=True)
class EraseRecord:
    """The record of an erasure in one table or many.

    Attributes:
        run_by: the user and the host.
        columns: the names in the filter.
    """

    version: str
    state: Literal["begun", "finished"]
    catalog: str
    started: datetime
    ended: datetime | None
    run_by: str
    columns: tuple[str, ...]
    value: HashedValue
    exit_code: int = 2
    tables: tuple[TableErased, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """With a digest over everything else; `write_record` adds a seal."""
        times = {"started": self.started.isoformat(), "ended": None if self.ended is None else self.ended.isoformat()}
        user, _, host = self.run_by.rpartition("@")
        facts = {"job": "erase", **asdict(self), **times, "user": user, "host": host}
        facts |= {"columns": list(self.columns), "tables": [asdict(each) for each in self.tables]}
        return {**facts, "sha256": digest_of(facts).hex()}


def write_record(record: EraseRecord, path: Path, sealer: Sealer) -> None:
    """Write the record under a seal, and a page beside it."""
    from sealberg.jobs.report.erase_page import erase_page

    write_files(sealed(record.to_json(), sealer), erase_page(record), path)
