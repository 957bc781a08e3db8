"""`sealberg compact TABLE`: rewrites small files and files with deleted rows, and merges manifests."""

from __future__ import annotations

import re
from typing import Final

import click

from sealberg.cli.job import job_options, run, runner_of

UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class _Size(click.ParamType[int]):
    """134217728, 131072K, 128M or 0.125G."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", str(value), re.I)
        if found is None:
            self.fail(f"{value!r} is not a size, expected a number of bytes, or one with K, M or G", param, ctx)
        return int(float(found[1]) * UNITS[found[2].upper()])


@click.command()
@click.argument("table")
@click.option(
    "--where", metavar="FILTER", help="Only files that may hold rows that match, such as \"day >= '2026-01-01'\"."
)
@click.option("--sort", is_flag=True, help="Sort rows by the table's sort order.")
@click.option("--sort-by", metavar="ORDER", help='Sort rows by this order: "day desc nulls last, id".')
@click.option("--zorder", metavar="COL,COL", help="Sort rows by the z-order of these columns.")
@click.option("--target-size", type=_Size(), metavar="SIZE", help="Of new files; default: the table's, or 512M.")
@click.option("--min-input-files", type=int, metavar="N", help="So many small files are worth it; default: 5.")
@click.option(
    "--max-commits", type=int, metavar="N", help="Commit in up to N batches, so that a killed job goes on; default: 1."
)
@click.option("--rewrite-all", is_flag=True, help="Rewrite every file.")
@click.option("--remove-dangling-deletes", is_flag=True, help="Remove delete files that apply to no file, too.")
@click.option("--manifests/--no-manifests", default=True, help="Merge manifests at the end; default: yes.")
@click.option(
    "--stats/--no-stats", default=None, help="Count distinct values at the end; default: if they were counted before."
)
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="The branch to compact.")
@click.option(
    "--option",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of Iceberg's rewrite_data_files, such as delete-ratio-threshold=0.1; may be repeated.",
)
@job_options
@click.pass_context
def compact(
    ctx: click.Context,
    table: str,
    catalog: str | None,
    where: str | None,
    sort_by: str | None,
    zorder: str | None,
    target_size: int | None,
    min_input_files: int | None,
    max_commits: int | None,
    branch: str,
    given: tuple[str, ...],
    threads: int | None,
    spark: str | None,
    *,
    sort: bool,
    rewrite_all: bool,
    remove_dangling_deletes: bool,
    manifests: bool,
    stats: bool | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Compact an encrypted table: small files become files of the target size, files with many deleted rows
    lose them, deletion vectors and other deletes are folded in, manifests are merged. Rows keep their ids;
    new files have new keys and the table's current partition spec. Others may write meanwhile.

    Old files stay until their snapshots expire. Exit code 0: done. 2: something was not compacted.
    """
    from sealberg.jobs.compact import plan

    if sort and sort_by:
        raise click.UsageError("--sort and --sort-by exclude each other")
    options = dict(_pair(each) for each in given)
    named = {
        "target-file-size-bytes": target_size,
        "min-input-files": min_input_files,
        "partial-progress.max-commits": max_commits,
        "partial-progress.enabled": "true" if max_commits is not None and max_commits > 1 else None,
        "rewrite-all": "true" if rewrite_all else None,
        "remove-dangling-deletes": "true" if remove_dangling_deletes else None,
    }
    for name, value in named.items():
        if value is not None and options.setdefault(name, str(value)) != str(value):
            raise click.UsageError(f"{name} is given twice: {options[name]} and {value}")
    columns = [column.strip() for column in zorder.split(",")] if zorder else []
    order = sort_by or sort
    made = plan(
        table,
        catalog=catalog,
        options=options,
        where=where,
        sort=order,
        zorder=columns,
        branch=branch,
        manifests=manifests,
        statistics=stats,
    )
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign:
        raise click.UsageError(f"--option {text}: expected NAME=VALUE")
    return name.strip(), value.strip()
