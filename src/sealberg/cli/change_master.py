"""`sealberg change-master TABLE NEW_KEY_ID`: a new table under another master key takes the place of a table."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command("change-master")
@click.argument("table")
@click.argument("new_key_id")
@click.option("--history", is_flag=True, help="Keep all snapshots; default: the current one, branches and tags.")
@click.option("--keep-as", metavar="NAME", help="The name of the old table afterwards; default: TABLE_old.")
@click.option("--drop-old", is_flag=True, help="Drop the old table, with every file that the new one does not use.")
@job_options
@click.pass_context
def change_master(
    ctx: click.Context,
    table: str,
    new_key_id: str,
    keep_as: str | None,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    history: bool,
    drop_old: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Put TABLE under the master key NEW_KEY_ID. The key id of a table never changes, so a new table takes
    its name: manifests and manifest lists are written anew under a new KEK, no data file is touched. The old
    table stays under another name until --drop-old drops it.

    Whoever had the old master key may know the keys of the data files; `sealberg rekey` gives them new keys.
    """
    from sealberg.jobs.change_master import plan

    made = plan(table, new_key_id, catalog=catalog, history=history, keep_as=keep_as, drop_old=drop_old)
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
