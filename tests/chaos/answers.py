"""Answers of the database that are lost: half of them after the commit, half of them before it.

For SQLite, where nothing stands between; PostgreSQL, Hive and REST lose theirs in a server or a proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    import random


def lose(rate: float, dice: random.Random) -> None:
    """From now on this process loses that share of the answers to COMMIT."""
    if not rate:
        return
    real = Session.commit

    def commit(self: Session) -> None:
        fate = dice.random()
        if fate < rate / 2:
            real(self)
            raise OperationalError("COMMIT", {}, Exception("chaos: the answer was lost after the commit"))
        if fate < rate:
            self.rollback()
            raise OperationalError("COMMIT", {}, Exception("chaos: the connection was lost before the commit"))
        real(self)

    Session.commit = commit  # type: ignore[method-assign]
