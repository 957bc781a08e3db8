"""An operation is written once: Python, the command line and SQL have the same parameters, under the names of each."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from sealberg.cli.main import COMMANDS, cli
from sealberg.cli.operation import command
from sealberg.errors import ConfigError
from sealberg.jobs.core import OneTable, Operation, Switch, Tables, on_table, on_tables, option, parameters
from sealberg.jobs.job import FINE, Plan, PlanStep

if TYPE_CHECKING:
    from collections.abc import Iterable


@parameters
class SweepOptions(OneTable):
    """Sweep a table.

    Exit code 0: done.
    """

    older_than: timedelta | None = option("Only older files; not with `depth`.", default=None)
    depth: int = option("Folders below each other.", default=3, least=1)
    names: Iterable[str] = option("These files, too.", default=(), flag="--name")
    ask: bool = option("Ask first.", default=True, switches=(Switch("--no-ask", False, "Do not ask."),))
    force: str = option("How.", default="no", switches=(Switch("--hard", "hard", "!"), Switch("--soft", "soft", "?")))

    def __post_init__(self) -> None:
        if self.older_than is not None and self.depth != 3:
            raise ConfigError("`older_than` and `depth` exclude each other")


class Result:
    exit_code = FINE

    def __init__(self, options: Any) -> None:
        self.options = options

    def to_json(self) -> dict[str, Any]:
        return {}

    def __str__(self) -> str:
        return repr(self.options)


class SweepPlan(Plan[Result]):
    job = "sweep"
    steps = (PlanStep("t", "sweep", note="`older_than` is not set"),)

    def __init__(self, options: SweepOptions) -> None:
        self.options = options

    def execute(self, **_: Any) -> Result:
        return Result(self.options)


@on_table("sweep", SweepOptions)
def sweep(options: SweepOptions) -> SweepPlan:
    """What will be swept."""
    return SweepPlan(options)


def said(*arguments: str) -> str:
    return CliRunner().invoke(command(sweep), arguments, catch_exceptions=False).output


def test_keyword_arguments_in_python_are_the_fields() -> None:
    assert sweep("hr.pay", depth=5).options == SweepOptions("hr.pay", depth=5)
    with pytest.raises(TypeError, match="dept"):
        sweep("hr.pay", dept=5)  # type: ignore[call-arg]


def test_flags_of_a_command_are_the_fields() -> None:
    given = ("hr.pay", "--depth", "5", "--name", "a", "--name", "b", "--no-ask", "--hard")
    made = SweepOptions("hr.pay", depth=5, names=("a", "b"), ask=False, force="hard")
    assert repr(made) in said(*given)
    assert repr(SweepOptions("hr.pay")) in said("hr.pay")


def test_two_flags_for_one_field_exclude_each_other() -> None:
    assert "--hard and --soft exclude each other" in said("hr.pay", "--hard", "--soft")


def test_help_of_a_command_is_that_of_the_options() -> None:
    text = said("--help")
    assert "Sweep a table.\n\n  Exit code 0: done." in text
    assert "--older-than AGE" in text
    assert "not with --depth" in text  # a field is a flag here
    assert "[default: 3; x>=1]" in text or "[default: 3]" in text


def test_an_error_names_fields_in_python_and_flags_on_the_command_line() -> None:
    with pytest.raises(ConfigError, match="`older_than` and `depth` exclude each other"):
        sweep("hr.pay", older_than=timedelta(1), depth=5)
    with pytest.raises(ConfigError, match=r"^--older-than and --depth exclude each other$"):
        said("hr.pay", "--older-than", "1d", "--depth", "5")


def test_a_plan_names_fields_in_python_and_flags_on_the_command_line() -> None:
    assert "`older_than` is not set" in str(sweep("hr.pay"))
    assert "--older-than is not set" in said("hr.pay", "--dry-run")


@parameters
class PoolOptions(Tables):
    """Pool tables."""


@on_tables("pool", PoolOptions)
def pool(options: PoolOptions) -> tuple[Any, ...]:
    return options.tables


def test_an_operation_on_tables_takes_any_number_of_them() -> None:
    assert pool("a", ("hr", "pay")) == ("a", ("hr", "pay"))
    assert pool(*"abcdef") == tuple("abcdef")


def test_tables_are_named_or_all_of_them_are_meant() -> None:
    with pytest.raises(ConfigError, match="no table was named"):
        pool()
    with pytest.raises(ConfigError, match="and some by name"):
        pool("a", every=True)


def test_no_text_of_an_operation_speaks_of_flags_by_itself() -> None:
    """A procedure shows the help of a field as its comment, and Python shows it, too."""
    from importlib import import_module

    for name, (where, _) in COMMANDS.items():
        module, _, attribute = where.partition(":")
        operation = getattr(import_module(module), attribute)
        if isinstance(operation, Operation):
            for each in operation.parameters:
                assert "--" not in each.help, (name, each.name)
            made = cli.get_command(click.Context(cli), name)
            assert made is not None
            assert "`" not in made.get_help(click.Context(made)).replace("`sealberg", "").replace("`,", "")
