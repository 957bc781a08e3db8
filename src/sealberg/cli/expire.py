"""`sealberg expire TABLE ...`: removes old snapshots, the files that only they used, and their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sealberg.cli.job import job_options, run, runner_of
from sealberg.cli.values import DurationOrMoment

if TYPE_CHECKING:
    from datetime import datetime, timedelta


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE | NAMESPACE]...")
@click.option("--all", "every", is_flag=True, help="All tables of the catalog.")
@click.option("--older-than", type=DurationOrMoment(), help="Expire snapshots older than 5d, 36h, or than 2026-03-01.")
@click.option("--retain-last", type=click.IntRange(min=1), metavar="N", help="Keep N snapshots of each branch.")
@click.option("--snapshot", "snapshots", type=int, multiple=True, metavar="ID", help="Expire this snapshot too.")
@click.option("--ref", "refs", multiple=True, metavar="NAME", help="Remove this branch or tag too.")
@job_options
@click.pass_context
def expire(
    ctx: click.Context,
    tables: tuple[str, ...],
    older_than: timedelta | datetime | None,
    retain_last: int | None,
    snapshots: tuple[int, ...],
    refs: tuple[str, ...],
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    every: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Expire snapshots by age and number, as Iceberg's properties and the settings of branches and tags
    say, and remove what only they used: data files, delete files, manifests, manifest lists, statistics,
    their keys, and every older metadata.json that holds such a key.

    Without options, history.expire.max-snapshot-age-ms (5 days) and
    history.expire.min-snapshots-to-keep (1) of the table decide.

    A table that fails does not stop the others. Exit code 0: done. 2: a table failed, or a file could not be
    removed; run the command again.
    """
    from sealberg.jobs.expire import plan

    if not tables and not every:
        raise click.UsageError("name tables or namespaces, or use --all")
    made = plan(
        *tables,
        catalog=catalog,
        every=every,
        older_than=older_than,
        retain_last=retain_last,
        snapshots=snapshots,
        refs=refs,
    )
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
