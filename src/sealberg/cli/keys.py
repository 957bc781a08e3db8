"""`sealberg keys`, `rotate`, `rewrap` and `prune-keys`: the keys of tables, without touching a file of rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sealberg.cli.console import json_option
from sealberg.cli.duration import DURATION
from sealberg.cli.job import catalog_option, dry_run_option, report_option, run, show, yes_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    F = TypeVar("F", bound=Callable[..., Any])


def key_job_options(command: F) -> F:
    """The options of jobs that change keys: no threads and no Spark, because there are no files to work on."""
    chosen = click.argument("tables", nargs=-1, metavar="[TABLE | NAMESPACE]...")
    every = click.option("--all", "every", is_flag=True, help="All tables of the catalog.")
    for option in reversed((chosen, every, catalog_option, yes_option, dry_run_option, json_option)):
        command = option(command)
    return command


@click.command()
@click.option("--older-than", type=DURATION, help="Only where the active KEK is older, for example 365d.")
@click.option(
    "--wraps", type=click.IntRange(min=0), metavar="N", help="Only where the active KEK has sealed more than N keys."
)
@key_job_options
@click.pass_context
def rotate(
    ctx: click.Context,
    tables: tuple[str, ...],
    catalog: str | None,
    older_than: timedelta | None,
    wraps: int | None,
    *,
    every: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give tables a fresh KEK, which seals the keys of later commits. What an older KEK sealed stays
    readable, and no file is rewritten.

    Exit code 0: done. 2: a table could not be changed; run the command again.
    """
    from sealberg.jobs.rotate import plan

    _check_named(tables, every=every)
    made = plan(*tables, catalog=catalog, every=every, older_than=older_than, wraps=wraps)
    result = run(made, runner=None, yes=yes, dry_run=dry_run, as_json=as_json)
    ctx.exit(result.exit_code if result is not None else 0)


@click.command()
@key_job_options
@click.pass_context
def rewrap(
    ctx: click.Context,
    tables: tuple[str, ...],
    catalog: str | None,
    *,
    every: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Wrap the KEKs of tables anew with the newest version of their master key, and prove that nothing
    needs an older version, so that older versions can be disabled in the KMS.

    Exit code 0: done and proved. 1: a KEK still needs an older version. 2: not proved: the KMS does not
    tell, or a table could not be changed.
    """
    from sealberg.jobs.rewrap import plan

    _check_named(tables, every=every)
    made = plan(*tables, catalog=catalog, every=every)
    result = run(made, runner=None, yes=yes, dry_run=dry_run, as_json=as_json)
    ctx.exit(result.exit_code if result is not None else 0)


@click.command("prune-keys")
@key_job_options
@click.pass_context
def prune_keys(
    ctx: click.Context,
    tables: tuple[str, ...],
    catalog: str | None,
    *,
    every: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove entries of encryption-keys that nothing needs: keys of snapshots that are gone, and KEKs that
    seal nothing.

    Exit code 0: done. 2: a table could not be changed; run the command again.
    """
    from sealberg.jobs.prune_keys import plan

    _check_named(tables, every=every)
    made = plan(*tables, catalog=catalog, every=every)
    result = run(made, runner=None, yes=yes, dry_run=dry_run, as_json=as_json)
    ctx.exit(result.exit_code if result is not None else 0)


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE | NAMESPACE]...")
@click.option("--all", "every", is_flag=True, help="All tables of the catalog; the default if none is named.")
@click.option("--no-kms", is_flag=True, help="Do not ask the KMS for versions and states of master keys.")
@report_option
@catalog_option
@json_option
@click.pass_context
def keys(
    ctx: click.Context,
    tables: tuple[str, ...],
    report: str | None,
    catalog: str | None,
    *,
    every: bool,
    no_kms: bool,
    as_json: bool,
) -> None:
    """List the keys of tables: which master key opens what, ages, versions and last use of KEKs, and what
    is due. Writes nothing and never prints a key.

    Exit code 0: nothing is due. 1: something is due. 2: a table could not be looked at.
    """
    from sealberg.jobs.keys import plan

    if report is not None and not Path(report).absolute().parent.is_dir():
        raise click.UsageError(f"--report {report}: the folder does not exist")
    made = plan(*tables, catalog=catalog, every=every, ask_kms=not no_kms)
    result = made.execute()
    show(result, as_json=as_json)
    if report is not None:
        from sealberg.jobs.report.document import write_page
        from sealberg.jobs.report.keys_page import keys_page

        write_page(keys_page(result), report)
        click.echo(f"report: {report}", err=True)
    ctx.exit(result.exit_code)


def _check_named(tables: tuple[str, ...], *, every: bool) -> None:
    if not tables and not every:
        raise click.UsageError("name tables or namespaces, or use --all")
