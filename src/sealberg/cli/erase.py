"""`sealberg erase TABLE --where FILTER`: a person's right to be forgotten."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command()
@click.argument("table")
@click.option("--where", required=True, metavar="FILTER", help='The rows: "id = 17", "email = \'a@example.org\'".')
@job_options
@click.pass_context
def erase(
    ctx: click.Context,
    table: str,
    where: str,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Erase rows from every branch, snapshot, file, manifest and metadata.json of an encrypted table. Files
    that hold the rows are written anew; snapshots and tags that show them expire (the plan names each);
    files, older metadata and keys are removed. Ends with a proof, and with what backups may still hold.

    Exit code 0: erased and proved. 1: something still shows the rows. 2: nothing was searched, or a file
    could not be removed; run the command again.
    """
    from sealberg.jobs.erase import plan

    with runner_of(threads, spark) as runner:
        made = plan(table, where=where, catalog=catalog, runner=runner)
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
