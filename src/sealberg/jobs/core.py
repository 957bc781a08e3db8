"""An operation is written once: from its options come the keyword arguments in Python, the command, and the procedure.

    @parameters
    class RotateOptions(Tables):
        '''Give tables a fresh KEK ...'''                          the help text of the command
        wraps: int | None = option("Only where ...", default=None)

    @on_tables("rotate", RotateOptions)
    def plan(options: RotateOptions) -> KeyPlan: ...

    plan("hr", wraps=1000)                  Python: the fields are the keyword arguments
    sealberg rotate hr --wraps 1000         sealberg.cli.operation makes the command
    CALL prod.system.rotate('hr.pay')       sealberg.spark.driver.procedures.operation makes the procedure

A parameter is one field: its name, type, default and help text stand nowhere else. Texts that name a parameter write
the name of its field in backquotes; the command line shows the flag instead.
"""

from __future__ import annotations

import inspect
from dataclasses import MISSING, dataclass, field, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    dataclass_transform,
    overload,
)

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.selection import TableName

P = ParamSpec("P")
L = TypeVar("L")
O = TypeVar("O", bound="Options")  # noqa: E741 (options)
T = TypeVar("T")
_ABOUT: Final = "parameter"


@dataclass(frozen=True, slots=True)
class Switch:
    """A flag that gives its field this value; without a value, the flag takes one."""

    flag: str
    value: Any
    help: str
    metavar: str | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a field says of itself.

    Attributes:
        kind: the type, which says how the parameter is written on the command line and in SQL.
        default: MISSING if the parameter is required.
        flags: on the command line; by default the name with dashes. Empty: not on the command line.
        switches: flags that stand for values, instead of one that takes a value.
        metavar: what the help of the command calls the value.
        sql: the name in SQL; None: no procedure has the parameter.
        least: the smallest number that is allowed.
    """

    name: str
    help: str
    kind: str
    default: Any
    flags: tuple[str, ...]
    switches: tuple[Switch, ...]
    metavar: str | None
    sql: str | None
    least: int | None
    is_argument: bool

    @property
    def is_required(self) -> bool:
        return self.default is MISSING

    @property
    def spelled(self) -> str:
        """On the command line."""
        return "/".join(switch.flag for switch in self.switches) or (self.flags[0] if self.flags else self.name)


def option(
    help: str,  # noqa: A002 (as in click)
    *,
    default: Any = MISSING,
    kind: str | None = None,
    flag: str | tuple[str, ...] | None = None,
    switches: tuple[Switch, ...] = (),
    metavar: str | None = None,
    sql: str | bool = False,
    least: int | None = None,
    show: bool = True,
) -> Any:
    """A field of options.

    Args:
        kind: if the type of the field does not say how a value is written: "snapshot", "size", "names", ...
        sql: True, or another name, for a parameter that procedures have.
        show: whether the value is part of the text of the options.
    """
    flags = (flag,) if isinstance(flag, str) else flag
    about = {"help": help, "kind": kind, "flags": flags, "switches": switches, "metavar": metavar, "sql": sql}
    given: dict[str, Any] = {} if default is MISSING else {"default": default}
    return field(**given, repr=show, metadata={_ABOUT: {**about, "least": least, "is_argument": False}})


def argument(
    help: str,  # noqa: A002
    *,
    metavar: str | None = None,
    sql: str | bool = False,
    kw_only: Literal[False],  # said at each field, since mypy looks at the call alone
) -> Any:
    """A field that comes by its position."""
    about = {"help": help, "kind": None, "flags": (), "switches": (), "metavar": metavar, "sql": sql}
    return field(kw_only=kw_only, metadata={_ABOUT: {**about, "least": None, "is_argument": True}})


def python_only(help: str, *, default: Any) -> Any:  # noqa: A002
    """A field that has no form in text: an object, or a number for tests of limits."""
    return option(help, default=default, flag=(), show=False)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, argument, python_only))
def parameters(options: type[T]) -> type[T]:
    """Makes a class of options: a frozen value, whose fields are given by their names."""
    return dataclass(frozen=True, kw_only=True)(options)


def parameters_of(options: type[Options]) -> Iterator[Parameter]:
    """The parameters of an operation, those of the class itself first."""
    for each in fields(options):
        if (about := each.metadata.get(_ABOUT)) is None:
            continue
        name, kind = each.name, about["kind"] or str(each.type).removesuffix(" | None")
        flags = (f"--{name.replace('_', '-')}",) if about["flags"] is None else about["flags"]
        sql = name if about["sql"] is True else about["sql"] or None
        yield Parameter(**{**about, "name": name, "kind": kind, "default": each.default, "flags": flags, "sql": sql})


# -- options that many operations have ----------------------------------------------------------------------------


@parameters
class Options:
    """What every operation takes."""

    catalog: Catalog | str | None = python_only("A catalog, or its name in PyIceberg's configuration.", default=None)


@parameters
class OneTable(Options):
    """An operation on one table: by name, by identifier, or open already."""

    table: TableName = argument("The table, with its namespace.", sql=True, kw_only=False)


@parameters
class Tables(Options):
    """An operation on tables: by name, by namespace, open already, or all of a catalog.

    Attributes:
        ALL_BY_DEFAULT: no name stands for all tables.
        METAVAR: what the help of a command calls the names.
    """

    ALL_BY_DEFAULT: ClassVar[bool] = False
    METAVAR: ClassVar[str] = "[TABLE | NAMESPACE]..."

    tables: tuple[TableName, ...] = ()
    every: bool = option("All tables of the catalog.", default=False, flag="--all")

    def __post_init__(self) -> None:
        if self.every and self.tables:
            raise ConfigError("all tables of the catalog were asked for, and some by name; expected one of the two")
        if not self.every and not self.tables and not self.ALL_BY_DEFAULT:
            raise ConfigError("no table was named; name tables or namespaces, or ask for all tables of the catalog")


# -- operations ---------------------------------------------------------------------------------------------------


class Operation(Generic[L]):
    """Options in, a plan out; a plan shows what will be done, and does it.

    Attributes:
        name: as on the command line.
        options: the class of its options.
        on_files: whether it works on files, with a runner: on threads or on Spark.
        asks: whether it has a plan that one looks at first; otherwise it only lists something.
        report: writes the result as a page.
    """

    def __init__(
        self,
        name: str,
        options: Callable[..., Options],
        plan: Callable[[Any], L],
        *,
        on_files: bool = True,
        asks: bool = True,
        report: Callable[[Any, str], None] | None = None,
    ) -> None:
        assert isinstance(options, type), "a class makes its values"
        self.name, self.options, self._plan = name, options, plan
        self.on_files, self.asks, self.report = on_files, asks, report
        self.__doc__, self.__module__, self.__name__ = plan.__doc__, plan.__module__, plan.__name__
        self.__signature__ = inspect.signature(options)

    @property
    def help(self) -> str:
        """What the operation does, for its users."""
        return inspect.getdoc(self.options) or ""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(parameters_of(self.options))

    def of(self, options: Options) -> L:
        """The plan for these options."""
        return self._plan(options)


class _OnTable(Operation[L], Generic[P, L]):
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> L:
        return self.of(self.options(*args, **kwargs))


class _OnTables(Operation[L], Generic[P, L]):
    """Called with any number of tables. Types have no word for that beside keywords, so up to four are checked."""

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> L: ...
    @overload
    def __call__(self, a: TableName, /, *args: P.args, **kwargs: P.kwargs) -> L: ...
    @overload
    def __call__(self, a: TableName, b: TableName, /, *args: P.args, **kwargs: P.kwargs) -> L: ...
    @overload
    def __call__(self, a: TableName, b: TableName, c: TableName, /, *args: P.args, **kwargs: P.kwargs) -> L: ...
    @overload
    def __call__(
        self, a: TableName, b: TableName, c: TableName, d: TableName, /, *args: P.args, **kwargs: P.kwargs
    ) -> L: ...
    def __call__(self, *tables: Any, **given: Any) -> L:  # type: ignore[misc]  # a field could be called a, b, c or d
        return self.of(self.options(tables=tables, **given))


def on_table(name: str, options: Callable[P, O], **more: Any) -> Callable[[Callable[[O], L]], _OnTable[P, L]]:
    """Makes an operation of a function that plans it."""
    return lambda plan: _OnTable(name, options, plan, **more)


def on_tables(name: str, options: Callable[P, O], **more: Any) -> Callable[[Callable[[O], L]], _OnTables[P, L]]:
    """The same for an operation on any number of tables."""
    return lambda plan: _OnTables(name, options, plan, **more)
