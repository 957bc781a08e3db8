"""The command of an operation, made from its options: `sealberg NAME`.

    the fields of the options ──> arguments and flags ──> options ──> plan ──> shown, asked, executed
    `field` in a text         ──> --flag

What all operations share, catalogs, threads, the question, comes from `sealberg.cli.job`.
"""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from sealberg.cli.console import json_option
from sealberg.cli.job import (
    catalog_option,
    dry_run_option,
    report_option,
    run,
    runner_of,
    show,
    spark_option,
    threads_option,
    yes_option,
)
from sealberg.cli.values import Duration, DurationOrMoment, Entry, Hours, Names, Range, Size, shown
from sealberg.errors import ConfigError
from sealberg.jobs.core import Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.jobs.core import Operation, Parameter
    from sealberg.jobs.runner import Runner

KINDS: Final[dict[str, Callable[[Parameter], click.ParamType[Any]]]] = {
    "str": lambda _: click.STRING,
    "int": lambda each: click.INT if each.least is None else click.IntRange(min=each.least),
    "snapshot": lambda _: click.INT,
    "timedelta": lambda _: Duration(),
    "timedelta | datetime": lambda _: DurationOrMoment(),
    "hours": lambda _: Hours(),
    "size": lambda _: Size(),
    "range": lambda _: Range(),
    "names": lambda _: Names(),
    "Iterable[int]": lambda _: click.INT,
    "Iterable[str]": lambda _: click.STRING,
    "entries": lambda _: Entry(),
}
SEVERAL: Final = ("Iterable[int]", "Iterable[str]", "entries")


class Confirmation(Protocol):
    """Asks before an operation that cannot be undone; an error if it must not begin."""

    def __call__(self, plan: str, given: dict[str, Any], *, yes: bool) -> None: ...


def command(operation: Operation[Any], *, confirm: Confirmation | None = None) -> click.Command:
    """The command of this operation.

    Args:
        confirm: asks in another way than others do; an option --confirm is for it.
    """
    params: list[click.Parameter] = []
    if issubclass(operation.options, Tables):
        params.append(click.Argument(["tables"], nargs=-1, metavar=operation.options.METAVAR))
    for each in operation.parameters:
        params += _params(each, operation)
    if operation.report is not None:
        params.append(_taken(report_option))
    params.append(_taken(catalog_option))
    if operation.on_files:
        params += [_taken(threads_option), _taken(spark_option)]
    if operation.asks:
        params += [_taken(yes_option), _taken(dry_run_option)]
    params.append(_taken(json_option))

    @click.pass_context
    def callback(ctx: click.Context, /, **given: Any) -> None:
        code = _Call(operation, given, confirm).code()
        if code is not None:
            ctx.exit(code)

    return click.Command(operation.name, params=params, callback=callback, help=operation.help)


def _taken(decorator: Callable[..., Any]) -> click.Parameter:
    """The option that a decorator of click adds."""

    @decorator
    def none() -> None: ...

    option: click.Parameter = none.__click_params__[0]
    return option


def _params(each: Parameter, operation: Operation[Any]) -> Iterator[click.Parameter]:
    words = in_flags(each.help, operation)
    if each.is_argument:
        yield click.Argument([each.name], metavar=each.metavar)
    elif each.switches:
        for number, switch in enumerate(each.switches):
            how: dict[str, Any] = {"metavar": switch.metavar} if switch.value is None else {"is_flag": True}
            yield click.Option([switch.flag, _dest(each, number)], help=in_flags(switch.help, operation), **how)
    elif each.flags:
        yield _option(each, words)


def _option(each: Parameter, words: str) -> click.Option:
    names = [*each.flags, each.name]
    if each.kind == "bool" and each.default is False:
        return click.Option(names, is_flag=True, help=words)
    if each.kind == "bool":  # true by default, or a third thing
        flag = each.flags[0]
        return click.Option([f"{flag}/--no-{flag[2:]}", each.name], default=None, help=words)
    several = each.kind in SEVERAL
    told = None if each.is_required or several or each.default in (None, ()) else shown(each.default)
    return click.Option(
        names,
        type=KINDS[each.kind](each),
        metavar=each.metavar,
        required=each.is_required,
        multiple=several,
        help=words if told is None else f"{words}  [default: {told}]",
    )


def _dest(each: Parameter, number: int) -> str:
    return f"{each.name}__{number}"


class _Call:
    """One call of a command."""

    def __init__(self, operation: Operation[Any], given: dict[str, Any], confirm: Confirmation | None) -> None:
        self.operation, self.given, self.confirm = operation, given, confirm
        self.report: str | None = given.get("report") if operation.report is not None else None
        self.dry_run = bool(given.get("dry_run"))

    def code(self) -> int | None:
        """The exit code; None after a dry run."""
        operation, given = self.operation, self.given
        self._check()
        options = self._options()
        plans_with_runner = any(each.name == "runner" for each in operation.parameters)
        with ExitStack() as opened, self._in_flags():
            if plans_with_runner:
                options["runner"] = self._runner(opened)
            plan = operation.of(operation.options(**options))
            if self.confirm is not None and not self.dry_run:
                self.confirm(self._say(str(plan)), given, yes=given["yes"])
            runner = options["runner"] if plans_with_runner else self._runner(opened)
            result = self._result(plan, runner)
        if result is None:
            return None
        if self.report is not None:
            self._write_report(result, self.report)
        code: int = result.exit_code
        return code

    def _check(self) -> None:
        """What is a mistake in the command itself."""
        options = self.operation.options
        if self.report is not None and self.dry_run:
            raise click.UsageError("--report needs a result, and --dry-run has none")
        if self.report is not None and not Path(self.report).absolute().parent.is_dir():
            raise click.UsageError(f"--report {self.report}: the folder does not exist")  # now, not after hours of work
        if issubclass(options, Tables) and not (options.ALL_BY_DEFAULT or self.given["tables"] or self.given["every"]):
            raise click.UsageError("name tables or namespaces, or use --all")

    def _options(self) -> dict[str, Any]:
        """What was given, by the names of the fields; a field of which nothing was said is left to its default."""
        options = {name: self.given[name] for name in ("catalog", "tables") if self.given.get(name) is not None}
        for each in self.operation.parameters:
            value = self._value(each)
            if value is not None and value != ():
                options[each.name] = dict(value) if each.kind == "entries" else value
        return options

    def _value(self, each: Parameter) -> Any:
        if not each.switches:
            return self.given.get(each.name)
        chosen = [
            (switch, value)
            for number, switch in enumerate(each.switches)
            if (value := self.given[_dest(each, number)]) not in (None, False)
        ]
        if len(chosen) > 1:
            raise click.UsageError(f"{' and '.join(switch.flag for switch, _ in chosen)} exclude each other")
        return next((value if switch.value is None else switch.value for switch, value in chosen), None)

    def _runner(self, opened: ExitStack) -> Runner | None:
        if not self.operation.on_files:
            return None
        return opened.enter_context(runner_of(self.given["threads"], self.given["spark"]))

    def _result(self, plan: Any, runner: Runner | None) -> Any:
        if not self.operation.asks:
            result = plan.execute()
            show(result, as_json=self.given["as_json"], say=self._say)
            return result
        yes = self.given["yes"] or self.confirm is not None
        return run(plan, runner=runner, yes=yes, dry_run=self.dry_run, as_json=self.given["as_json"], say=self._say)

    def _write_report(self, result: Any, file: str) -> None:
        if getattr(result, "stopped", False):
            click.echo(f"no report: {self.operation.name} was stopped", err=True)
            return
        assert self.operation.report is not None, "only operations with a page have the option"
        self.operation.report(result, file)
        click.echo(f"report: {file}", err=True)

    def _say(self, text: str) -> str:
        return in_flags(text, self.operation)

    @contextmanager
    def _in_flags(self) -> Iterator[None]:
        """Errors about options name them as they were given."""
        try:
            yield
        except ConfigError as error:
            error.args = (self._say(str(error)), *error.args[1:])
            raise


def in_flags(text: str, operation: Operation[Any]) -> str:
    """A text of the library, in which `field` stands for a parameter, with the flags of the command line."""
    flags = {each.name: each.spelled for each in operation.parameters}
    return re.sub(r"`(\w+)`", lambda found: flags.get(found[1], found[0]), text)
