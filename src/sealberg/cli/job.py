"""What all jobs share on the command line: the same options, the plan, the question, the progress, the exit code.

    --catalog --threads --spark    where the tables are, and where their files are worked on
    --dry-run                      show the plan, do nothing
    --yes                          do not ask
    --json                         the plan or the result as one JSON object on standard output
    --report FILE.html             the result as a page, for jobs that have one

    plan ──shown on stderr──> confirm ──> execute, with progress on stderr ──> result on stdout, exit code

Standard output holds the result and nothing else. A job that changes nothing does not ask.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from sealberg.cli.console import json_option, print_json, safe
from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.jobs.job import JobResult, Plan, Progress, ProgressListener
    from sealberg.jobs.runner import Runner

    R = TypeVar("R", bound=JobResult)
    F = TypeVar("F", bound=Callable[..., Any])

REDRAW_S: Final = 0.2

catalog_option = click.option(
    "--catalog", metavar="NAME", help="A catalog of PyIceberg's configuration; default: the default catalog."
)
report_option = click.option(
    "--report", metavar="FILE.html", type=click.Path(dir_okay=False, writable=True), help="Write the result as a page."
)
threads_option = click.option(
    "--threads", metavar="N", type=click.IntRange(min=1), help="Threads; default: one a core."
)
spark_option = click.option("--spark", metavar="MASTER", help="Work on Spark: local[4], spark://host:7077, yarn, ...")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show the plan and do nothing.")


def job_options(command: F) -> F:
    """The options that every job has."""
    for option in reversed((catalog_option, threads_option, spark_option, yes_option, dry_run_option, json_option)):
        command = option(command)
    return command


@contextmanager
def runner_of(threads: int | None, spark: str | None) -> Iterator[Runner]:
    """Threads of this machine, or a Spark session that ends with the block."""
    from sealberg.jobs.runner import Threads

    if spark is None:
        yield Threads(threads)
        return
    if threads is not None:
        raise click.UsageError("--threads and --spark exclude each other; the master says how many tasks run at a time")
    from sealberg.spark.job_runner import spark_runner

    with spark_runner(spark) as runner:
        yield runner


def run(
    plan: Plan[R],
    *,
    runner: Runner | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    say: Callable[[str], str] = str,
) -> R | None:
    """Show the plan, ask if the job changes anything, execute, and print the result; None after a dry run.

    Args:
        say: how a text of the library is said on the command line.
    """
    if dry_run:
        if as_json:
            print_json(plan.to_json())
        else:
            _echo(say(str(plan)))
        return None
    if not as_json:
        _echo(say(str(plan)), err=True)
    if plan.changes and not yes:
        if not sys.stdin.isatty():
            raise ConfigError("not confirmed: there is no terminal to ask; use --yes, or --dry-run to see the plan")
        click.confirm("Do this?", abort=True, err=True)
    result = _executed(plan, runner)
    show(result, as_json=as_json, say=say)
    return result


def show(result: JobResult, *, as_json: bool, say: Callable[[str], str] = str) -> None:
    """Print the result of a job."""
    if as_json:
        print_json(result.to_json())
    else:
        _echo(say(str(result)))


def _executed(plan: Plan[R], runner: Runner | None) -> R:
    """The result; what there is of it, if Ctrl-C stopped a job that can say so."""
    from sealberg.jobs.job import JobStopped

    try:
        with progress_bar() as listener:
            return plan.execute(progress=listener, runner=runner)
    except JobStopped as stopped:
        return cast("R", stopped.result)


@contextmanager
def progress_bar() -> Iterator[ProgressListener | None]:
    """Files, bytes, rate and time left on standard error, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    began = shown = time.monotonic()

    def show(now: Progress) -> None:
        nonlocal shown
        at = time.monotonic()
        if at - shown >= REDRAW_S:
            shown = at
            click.echo(f"\r\x1b[K{progress_line(now, at - began)}", nl=False, err=True)

    try:
        yield show
    finally:
        click.echo("\r\x1b[K", nl=False, err=True)


def progress_line(now: Progress, seconds: float) -> str:
    """12 of 40 files, 1.2 GiB of 4.0 GiB, 310.0 MiB/s, 0:09 left."""
    from sealberg.jobs.job import readable

    rate = now.bytes_done / seconds if seconds > 0 else 0.0
    left = max(0, now.bytes_total - now.bytes_done)
    minutes, rest = divmod(round(left / rate), 60) if rate else (0, 0)
    parts = [
        f"{now.files_done} of {now.files_total} files",
        f"{readable(now.bytes_done)} of {readable(max(now.bytes_total, now.bytes_done))}",
        f"{readable(round(rate))}/s",
        *([f"{minutes}:{rest:02} left"] if rate else []),
    ]
    return ", ".join(parts)


def _echo(text: str, *, err: bool = False) -> None:
    click.echo("\n".join(map(safe, text.split("\n"))), err=err)
