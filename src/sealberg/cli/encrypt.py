"""`sealberg encrypt SOURCE TARGET --key-id ID`: copies a plaintext table or folder into a new encrypted table."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command()
@click.argument("source", metavar="TABLE|FOLDER|GLOB")
@click.argument("target")
@click.option("--key-id", required=True, metavar="ID", help="The master key of the new table.")
@click.option("--key-length", type=click.Choice(["16", "24", "32"]), help="Bytes of data keys; default: 16.")
@click.option("--history", is_flag=True, help="Copy all snapshots with their times, branches and tags.")
@click.option("--sync", is_flag=True, help="Follow commits to the source; catch up a target that exists.")
@click.option("--swap", is_flag=True, help="Exchange the two names at the end; implies --sync.")
@click.option(
    "--purge-source",
    is_flag=True,
    help="With --swap: then REMOVE the plaintext table with all its files, and search for what is left.",
)
@click.option("--location", metavar="URI", help="Where the new table is; default: the catalog chooses.")
@job_options
@click.pass_context
def encrypt(
    ctx: click.Context,
    source: str,
    target: str,
    key_id: str,
    key_length: str | None,
    location: str | None,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    history: bool,
    sync: bool,
    swap: bool,
    purge_source: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Encrypt a plaintext Iceberg table (versions 1, 2, 3), or the Parquet files of a folder or glob, into a
    new table. Pages are sealed as they are, without decoding. The target gets its name after every file was
    read again and compared with its source. A killed run goes on where it was when it is repeated. The source
    stays as it is; what remains in the clear is named at the end.

    Exit code 0: done. 1: something of a source that was to be removed is left. 2: it is not known whether.
    """
    from sealberg.jobs.encrypt import plan

    made = plan(
        source,
        target,
        key_id=key_id,
        catalog=catalog,
        key_length=None if key_length is None else int(key_length),
        history=history,
        sync=sync,
        swap=swap,
        location=location,
        purge_source=purge_source,
    )
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)
