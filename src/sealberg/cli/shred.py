"""`sealberg shred TABLE`: destroys access to a table for good, after its name was typed."""

from __future__ import annotations

import sys

import click

from sealberg.cli.console import json_option
from sealberg.cli.job import catalog_option, dry_run_option, run, yes_option
from sealberg.errors import ConfigError


@click.command()
@click.argument("table")
@click.option(
    "--schedule-master-key-deletion",
    "days",
    type=click.IntRange(min=0),
    metavar="DAYS",
    help="Delete the master key too, after this waiting time; refused if a table of any configured catalog uses it.",
)
@click.option("--record", metavar="FILE.json", help="Write what was destroyed and checked here, and as a page beside.")
@click.option("--approved-by", metavar="NAME", help="Who has approved it, for the record; not who runs it.")
@click.option("--sign-with", metavar="KEY", help="The key of the KMS that seals the record; default: the master key.")
@click.option("--confirm", metavar="TABLE", help="The name of the table once more, where nobody can type it.")
@catalog_option
@yes_option
@dry_run_option
@json_option
@click.pass_context
def shred(
    ctx: click.Context,
    table: str,
    days: int | None,
    record: str | None,
    approved_by: str | None,
    sign_with: str | None,
    confirm: str | None,
    catalog: str | None,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """DESTROY access to a table for good: its keys are taken out of every metadata.json, and every snapshot
    becomes unreadable for everybody. Nothing brings it back. Files of rows stay where they are, as noise. Every
    file is opened with its key before: what nobody can open is named as not proved.

    The name of the table must be typed on a terminal, also with --yes; without a terminal, --yes and
    --confirm TABLE are needed.

    Exit code 0: destroyed and checked. 1: something may still be opened. 2: something could not be done, or is
    not proved.
    """
    from sealberg.jobs.shred import plan

    if sign_with is not None and record is None:
        raise click.UsageError("--sign-with is an option of --record, which was not given")
    made = plan(
        table,
        catalog=catalog,
        delete_master_key_after=days,
        record=record,
        approved_by=approved_by,
        sign_with=sign_with,
    )
    if not dry_run:
        _ask(str(made), table, confirm, yes=yes)
    result = run(made, runner=None, yes=True, dry_run=dry_run, as_json=as_json)
    ctx.exit(result.exit_code if result is not None else 0)


def _ask(plan: str, table: str, confirm: str | None, *, yes: bool) -> None:
    if confirm is not None and confirm != table:
        raise ConfigError(f"not confirmed: --confirm is {confirm!r}, expected {table!r}; nothing was destroyed")
    if not _is_terminal():
        if not yes or confirm is None:
            raise ConfigError(
                f"not confirmed: there is no terminal on which to type the name of the table; use --yes --confirm "
                f"{table}, or --dry-run to see the plan. Nothing was destroyed"
            )
        return
    click.echo(plan, err=True)
    if not yes:
        click.confirm("Destroy access to this table FOR GOOD?", abort=True, err=True)
    typed = click.prompt("Type the name of the table to destroy it", err=True)
    if typed != table:
        raise ConfigError(f"not confirmed: {typed!r} is not {table!r}; nothing was destroyed")


def _is_terminal() -> bool:
    return sys.stdin.isatty()
