"""`sealberg erase TABLE --where FILTER`: a person's right to be forgotten, in one table or in all of a catalog."""

from __future__ import annotations

import click

from sealberg.cli.job import job_options, run, runner_of


@click.command()
@click.argument("tables", nargs=-1, metavar="TABLE...")
@click.option("--all", "every", is_flag=True, help="All tables of the catalog.")
@click.option("--where", metavar="FILTER", help='The rows: "id = 17", "email = \'a@example.org\'".')
@click.option("--key-column", metavar="COLUMN", help="Instead of --where: the column that has the value.")
@click.option("--value", metavar="VALUE", help="The value, in the type that the column has in each table.")
@click.option("--delete-versions", is_flag=True, help="Delete older versions of removed objects that a bucket keeps.")
@click.option("--record", metavar="FILE.json", help="Write what was erased and proved here, and as a page beside.")
@click.option("--sign-with", metavar="KEY", help="The key of the KMS that seals the record; default: the master key.")
@job_options
@click.pass_context
def erase(
    ctx: click.Context,
    tables: tuple[str, ...],
    where: str | None,
    key_column: str | None,
    value: str | None,
    record: str | None,
    sign_with: str | None,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    every: bool,
    delete_versions: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Erase rows from every branch, snapshot, file, manifest and metadata.json of encrypted tables. Files
    that hold the rows are written anew; snapshots and tags that show them expire (the plan names each);
    files, older metadata and keys are removed. Ends with a proof, and with what backups may still hold.

    Among many tables, or with --all, those that never had the column are passed over, and those that have it
    and cannot be searched make the answer incomplete.

    Exit code 0: erased and proved. 1: something still shows the rows. 2: nothing was searched, or something
    was not searched or not removed; run the command again.
    """
    from sealberg.jobs import erase as one
    from sealberg.jobs import erase_many as many

    if sign_with is not None and record is None:
        raise click.UsageError("--sign-with is an option of --record, which was not given")
    with runner_of(threads, spark) as runner:
        if len(tables) == 1 and where is not None and not (every or key_column or value or record):
            made = one.plan(tables[0], where=where, catalog=catalog, runner=runner, delete_versions=delete_versions)
            result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
            code = None if result is None else result.exit_code
        else:
            planned = many.plan(
                *tables,
                catalog=catalog,
                every=every,
                where=where,
                key_column=key_column,
                value=value,
                record=record,
                sign_with=sign_with,
                runner=runner,
                delete_versions=delete_versions,
            )
            erasures = run(planned, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
            code = None if erasures is None else erasures.exit_code
    if code is not None:
        ctx.exit(code)
