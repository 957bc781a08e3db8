"""`sealberg orphans TABLE`: removes files below the table's location that no metadata names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sealberg.cli.job import job_options, run, runner_of
from sealberg.cli.values import Duration

if TYPE_CHECKING:
    from datetime import timedelta


@click.command()
@click.argument("table")
@click.option("--older-than", type=Duration(), default="3d", show_default=True, help="The least age of an orphan.")
@click.option("--allow-recent", is_flag=True, help="Allow an age below 1d; nobody may write to the table meanwhile.")
@click.option("--ignore-other-tables", is_flag=True, help="No other table of the catalog has files in these folders.")
@click.option("--allow-newer-metadata", is_flag=True, help="Go on although storage has newer metadata of the table.")
@click.option("--file", "files", multiple=True, help="Remove this foreign file, too; may be repeated.")
@job_options
@click.pass_context
def orphans(
    ctx: click.Context,
    table: str,
    older_than: timedelta,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    files: tuple[str, ...],
    *,
    allow_recent: bool,
    ignore_other_tables: bool,
    allow_newer_metadata: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove what lies below the location of a table and that no metadata names: files of failed commits, of
    killed writers and of snapshots that were expired without removing files. Shows the list first; with
    --dry-run --json, all of it.

    Files of other tables of the catalog, links, and files that no writer of Iceberg has left are never removed; the
    last are listed, and go if they are named (--file).

    Exit code 0: done, or there was nothing to remove. 1: a file is not the table's own, and stays. 2: a file could
    not be removed.
    """
    from sealberg.jobs.orphans import plan

    with runner_of(threads, spark) as runner:
        made = plan(
            table,
            catalog=catalog,
            older_than=older_than,
            allow_recent=allow_recent,
            check_others=not ignore_other_tables,
            allow_newer_metadata=allow_newer_metadata,
            files=files,
            runner=runner,
        )
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
