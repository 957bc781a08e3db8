"""`sealberg verify TABLE ...`: proves that encrypted tables are whole and sealed, or says what is not."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealberg.cli.job import job_options, report_option, run, runner_of

if TYPE_CHECKING:
    from sealberg.jobs.findings import Level


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE | NAMESPACE]...")
@click.option("--all", "every", is_flag=True, help="All tables of the catalog.")
@click.option("--snapshot", type=int, metavar="ID", help="Check this snapshot only, and search no orphans.")
@click.option("--fast", is_flag=True, help="Headers and footers only.")
@click.option("--deep", is_flag=True, help="Decode every row too, and compare rows with counts, bounds and partitions.")
@click.option(
    "--orphan-age",
    type=click.FloatRange(min=0),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="How old a file that no metadata names must be to be reported.",
)
@click.option(
    "--expect-tables",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many tables there must be; another number gives exit code 2.",
)
@click.option("--strict", is_flag=True, help="Files in flight, which nothing proves, give exit code 2.")
@report_option
@job_options
@click.pass_context
def verify(
    ctx: click.Context,
    tables: tuple[str, ...],
    catalog: str | None,
    snapshot: int | None,
    orphan_age: float,
    expect_tables: int | None,
    threads: int | None,
    spark: str | None,
    report: str | None,
    *,
    every: bool,
    fast: bool,
    deep: bool,
    strict: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Verify encrypted tables: every block of every manifest list, manifest, Avro and Puffin file, every
    module of every Parquet file, of every snapshot; lengths, counts, bounds, row ids, sequence numbers,
    partition values; keys that are missing, unused or too old; plaintext and orphans in storage; the
    catalog's hash. Writes nothing. Never prints a row or a key.

    Exit code 0: everything was checked and nothing was found. 1: findings. 2: there are no tables, or
    something could not be checked; what was found until then is reported. 130: Ctrl-C stopped it; what was
    found until then is reported, after the files that are being checked.
    """
    from sealberg.jobs.verify import plan

    if fast and deep:
        raise click.UsageError("--fast and --deep exclude each other")
    if report is not None and dry_run:
        raise click.UsageError("--report needs a result, and --dry-run has none")
    if report is not None and not Path(report).absolute().parent.is_dir():
        raise click.UsageError(f"--report {report}: the folder does not exist")  # now, and not after hours of work
    if not tables and not every:
        raise click.UsageError("name tables or namespaces, or use --all")
    level: Level = "fast" if fast else "deep" if deep else "full"
    age = timedelta(hours=orphan_age)
    made = plan(
        *tables,
        catalog=catalog,
        every=every,
        level=level,
        snapshot=snapshot,
        orphan_age=age,
        expect_tables=expect_tables,
        strict=strict,
    )
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None and report is not None and result.stopped:
        click.echo("no report: verify was stopped", err=True)
    elif result is not None and report is not None:
        from sealberg.jobs.report import write_report

        write_report(result, report)
        click.echo(f"report: {report}", err=True)
    if result is not None:
        ctx.exit(result.exit_code)
