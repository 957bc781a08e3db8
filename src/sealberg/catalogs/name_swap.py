"""Exchanges the names of two tables. SQL catalogs do this in one transaction, all others with three renames:

    step                          a            b            between
    0                             table 1      table 2      -
    1  rename a to between        -            table 2      table 1
    2  rename b to a              table 2      -            table 1
    3  rename between to b        table 2      table 1      -

The name `between` is made of both names, so a process that dies leaves a state that the next process recognises:
`swap_tables` with the same names, in either order, goes on with the next step, and so does `finish_swap`. While a name
has no table, readers and writers of that name get NoSuchTableError. No table is ever without a name.

A rename in Glue is itself two requests, a create and a drop. A process that dies between them leaves one table under
two names; the second request is then made up for.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from sealberg.errors import UnfinishedSwapError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.typedef import Identifier

    from sealberg.catalogs.base import EncryptedCatalog

Places = tuple[str | None, str | None, str | None]  # the metadata locations of a, b and between; None: no such table


def between_name(a: Identifier, b: Identifier) -> Identifier:
    """The name of table `a` while its name is exchanged with that of `b`."""
    digest = sha256("\0".join((*a, "", *b)).encode()).hexdigest()[:8]
    return (*a[:-1], f"{a[-1]}_swap_{digest}")


@dataclass(frozen=True)
class NameSwap:
    """Three renames in a catalog without transactions.

    Args:
        unchanged: the metadata location that a table must still have when it is renamed.
    """

    catalog: EncryptedCatalog
    a: Identifier
    b: Identifier
    unchanged: Mapping[Identifier, str]

    @classmethod
    def of(
        cls, catalog: EncryptedCatalog, first: Identifier, second: Identifier, unchanged: Mapping[Identifier, str]
    ) -> NameSwap:
        a, b = sorted((first, second))  # so that a repetition in the other order finds the same state
        return cls(catalog, a, b, unchanged)

    @property
    def between(self) -> Identifier:
        return between_name(self.a, self.b)

    def run(self) -> None:
        step = self._step()
        if step == 0:
            self.catalog.admit_swapped(self.a, self.b, self.between)
            try:
                self._rename(self.a, self.between)
            except NotImplementedError as error:
                raise UnsupportedError(
                    f"cannot exchange the names {_dotted(self.a)} and {_dotted(self.b)}: the catalog cannot rename "
                    f"tables: {error}"
                ) from error
        self._finish(max(step, 1))

    def is_begun(self) -> bool:
        """Whether a table has the name `between`."""
        return self._place(self.between) is not None

    def finish(self) -> bool:
        """Make up for the steps that a killed process left undone; False if there are none."""
        step = self._step(missing_is_zero=True)
        if step > 0:
            self._finish(step)
        return step > 0

    def _finish(self, step: int) -> None:
        try:
            if step == 1:
                try:
                    self._rename(self.b, self.a)
                except CommitFailedException:
                    self.catalog.rename_table(self.between, self.a)
                    raise
                step = 2
            self.catalog.rename_table(self.between, self.b)
        except CommitFailedException:
            raise
        except Exception as error:
            raise UnfinishedSwapError(self._described(step, error)) from error

    def _rename(self, old: Identifier, new: Identifier) -> None:
        """Rename a table; rename it back if it is not the version that the caller expects."""
        moved = self.catalog.rename_table(old, new)
        expected = self.unchanged.get(old)
        if expected is not None and moved.metadata_location != expected:
            self.catalog.rename_table(new, old)
            raise CommitFailedException(f"Table has been updated by another process: {_dotted(old)}")

    # -- how far an earlier process came --------------------------------------------------------

    def _step(self, *, missing_is_zero: bool = False) -> int:
        at_a, at_b, at_between = places = self._places()
        match tuple(place is not None for place in places):
            case (True, True, False):
                return 0
            case (False, True, True):
                return 1
            case (True, False, True):
                return 2
            case (True, True, True):
                return self._without_copy(at_a, at_b, at_between)
        if missing_is_zero:
            return 0
        missing = self.a if at_a is None else self.b
        raise NoSuchTableError(f"Table does not exist: {_dotted(missing)}")

    def _without_copy(self, at_a: str | None, at_b: str | None, at_between: str | None) -> int:
        """Drop the entry that a half rename of Glue left; dropping an entry deletes no file."""
        if at_a == at_between:  # before step 1 was complete
            self.catalog.drop_table(self.a)
            return 1
        if at_a == at_b:  # before step 2 was complete
            self.catalog.drop_table(self.b)
            return 2
        self.catalog.drop_table(self.between) if at_b == at_between else self._refuse_foreign()
        return 0

    def _refuse_foreign(self) -> None:
        raise UnfinishedSwapError(
            f"cannot exchange the names {_dotted(self.a)} and {_dotted(self.b)}: there is a third table "
            f"{_dotted(self.between)}, whose name is needed meanwhile. Rename or drop that table"
        )

    def _places(self) -> Places:
        a, b, between = (self._place(name) for name in (self.a, self.b, self.between))
        return a, b, between

    def _place(self, name: Identifier) -> str | None:
        try:
            return str(self.catalog.load_table(name).metadata_location)
        except NoSuchTableError:
            return None

    def _described(self, step: int, error: Exception) -> str:
        a, b, between = map(_dotted, (self.a, self.b, self.between))
        where = {
            1: f"the table {a} has the name {between}, and no table has the name {a}",
            2: f"the table {b} has the name {a} already, the table {a} has the name {between}, and no table has the "
            f"name {b}",
        }
        return (
            f"the names {a} and {b} are exchanged only in part: {where[step]}; the next rename failed: {error}. "
            f"Exchange the names again to finish, or rename {between} yourself"
        )


def _dotted(name: Identifier) -> str:
    return ".".join(name)
