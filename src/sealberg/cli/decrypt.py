"""`sealberg decrypt TABLE TARGET --reason TEXT`: copies an encrypted table into a new plaintext table."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command()
@click.argument("table")
@click.argument("target")
@click.option("--reason", required=True, metavar="TEXT", help="Why; it goes to the audit log and into the new table.")
@click.option("--history", is_flag=True, help="Copy all snapshots with their times, branches and tags.")
@click.option("--location", metavar="URI", help="Where the new table is; default: the catalog chooses.")
@job_options
@click.pass_context
def decrypt(
    ctx: click.Context,
    table: str,
    target: str,
    reason: str,
    location: str | None,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    history: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Copy an encrypted table into a new table IN THE CLEAR: everybody who can read the storage of the new
    table reads every row. The encrypted table stays as it is. The logger sealberg.audit gets the reason.
    """
    from sealberg.jobs.decrypt import plan

    made = plan(table, target, reason=reason, catalog=catalog, history=history, location=location)
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
