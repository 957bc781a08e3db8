"""`sealberg rekey TABLE`: new data keys for the files of a table, without decoding them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sealberg.cli.job import job_options, run, runner_of
from sealberg.cli.values import DurationOrMoment

if TYPE_CHECKING:
    from datetime import datetime, timedelta


@click.command()
@click.argument("table")
@click.option("--older-than", type=DurationOrMoment(), help="Only files older than 90d, or than 2026-03-01.")
@click.option("--snapshots", metavar="FROM..TO", help="Only files that these snapshots, and those between, added.")
@click.option("--batch-files", type=int, default=1000, show_default=True, metavar="N", help="Files of one commit.")
@click.option("--batch-bytes", type=int, default=64 << 30, metavar="N", help="Bytes of one commit; default: 64 GiB.")
@click.option("--restart", is_flag=True, help="Begin anew, although an earlier job was not finished.")
@click.option("--erase", is_flag=True, help="Afterwards remove snapshots, tags, files and metadata with old keys.")
@click.option("--keep-tags", is_flag=True, help="With --erase: keep tags, with their files and their old keys.")
@job_options
@click.pass_context
def rekey(
    ctx: click.Context,
    table: str,
    older_than: timedelta | datetime | None,
    snapshots: str | None,
    batch_files: int,
    batch_bytes: int,
    catalog: str | None,
    threads: int | None,
    spark: str | None,
    *,
    restart: bool,
    erase: bool,
    keep_tags: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Give the files of TABLE new data keys: pages of Parquet files are re-wrapped, Avro files and deletion
    vectors are sealed anew, manifests and lists are written anew. Rows, row ids and sequence numbers stay.
    For a key or a manifest that has leaked, and after `sealberg change-master`.

    A killed job goes on with the files that are left. Other writers may commit meanwhile.
    """
    from sealberg.jobs.rekey import plan

    made = plan(
        table,
        catalog=catalog,
        older_than=older_than,
        snapshots=_pair(snapshots),
        batch_files=batch_files,
        batch_bytes=batch_bytes,
        restart=restart,
        erase=erase,
        keep_tags=keep_tags,
    )
    with runner_of(threads, spark) as runner:
        result = run(made, runner=runner, yes=yes, dry_run=dry_run, as_json=as_json)
    if result is not None:
        ctx.exit(result.exit_code)


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, dots, last = text.partition("..")
    if not dots or not first.isdigit() or not last.isdigit():
        raise click.UsageError(f"--snapshots is {text!r}, expected two snapshot ids as FROM..TO")
    return int(first), int(last)
