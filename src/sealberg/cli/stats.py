"""`sealberg stats TABLE`: counts distinct values of columns and keeps the numbers encrypted, or removes statistics."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command()
@click.argument("table")
@click.option("--columns", metavar="A,B,...", help="Columns to count; default: all columns of primitive types.")
@click.option("--snapshot", type=int, metavar="ID", help="The snapshot to count; default: the current one.")
@click.option(
    "--publish-ndv",
    is_flag=True,
    help="Show the numbers in metadata.json, which is not encrypted, so that Iceberg Java's optimiser sees them.",
)
@click.option("--partitions", is_flag=True, help="Count rows, files and deletes of each partition instead.")
@click.option("--remove", is_flag=True, help="Remove the statistics files of the table, or of the snapshot.")
@click.option("--plaintext", is_flag=True, help="With --remove: only files that are not encrypted.")
@job_options
@click.pass_context
def stats(
    ctx: click.Context,
    table: str,
    catalog: str | None,
    columns: str | None,
    snapshot: int | None,
    threads: int | None,
    spark: str | None,
    *,
    publish_ndv: bool,
    partitions: bool,
    remove: bool,
    plaintext: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Count the distinct values of columns of an encrypted table, for the optimisers of query engines. The
    numbers and their sketches are stored in an encrypted Puffin file, and its key in the table.

    --partitions writes an encrypted partition statistics file instead: rows, files, bytes and deletes of each
    partition, out of the manifests.

    --remove removes statistics files instead: with --plaintext, those that Iceberg Java wrote unencrypted.
    """
    from sealberg.jobs import partition_stats, stats_removal
    from sealberg.jobs import stats as counting

    if plaintext and not remove:
        raise click.UsageError("--plaintext needs --remove: encrypted tables get no plaintext statistics")
    if remove and (columns is not None or publish_ndv):
        raise click.UsageError("--remove removes whole statistics files; --columns and --publish-ndv are for counting")
    if partitions and (remove or columns is not None or publish_ndv or spark is not None):
        raise click.UsageError(
            "--partitions reads manifests; it takes no --columns, --publish-ndv, --spark or --remove"
        )
    if partitions:
        run(
            partition_stats.plan(table, catalog=catalog, snapshot=snapshot),
            runner=None,
            yes=yes,
            dry_run=dry_run,
            as_json=as_json,
        )
        return
    if remove:
        removal = stats_removal.plan(table, catalog=catalog, snapshot=snapshot, plaintext=plaintext)
        removed = run(removal, runner=None, yes=yes, dry_run=dry_run, as_json=as_json)
        if removed is not None:
            ctx.exit(removed.exit_code)
        return
    names = [] if columns is None else [name.strip() for name in columns.split(",")]
    made = counting.plan(table, catalog=catalog, columns=names, snapshot=snapshot, publish_ndv=publish_ndv)
    with runner_of(threads, spark) as runner:
        run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
