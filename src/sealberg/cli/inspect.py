"""`sealberg inspect FILE|FOLDER|GLOB|TABLE`: says what files and tables are, and flags plaintext.

a file           its kind, lengths; of table metadata also the key tree
folder, glob     the kinds of its files; --files lists them
a table          the key tree with ages and states of KEKs; --files lists manifests and files
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from sealberg.cli.console import json_option, moment, print_json, safe, size
from sealberg.cli.job import catalog_option, threads_option
from sealberg.jobs.inspect import file_findings, identify_in, inspect_files, metadata_keks
from sealberg.jobs.inspect_target import TableName, resolve
from sealberg.jobs.job import readable
from sealberg.jobs.key_tree import age_text, state_text
from sealberg.keys.keyring import KEK_LIFESPAN_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sealberg.files.identify import Finding as Identified
    from sealberg.jobs.findings import Finding, KekFacts, TableFacts
    from sealberg.jobs.inspect import InspectedFile, Inspection
    from sealberg.jobs.inspect_target import Files
    from sealberg.keys.key_tree import KeyTree, ListKey

T = TypeVar("T")

VOUCHING = {
    "hash": "vouches for the metadata by their hash",
    "location": "vouches for location and key id, has no hash of the metadata",
    "server": "sends the metadata itself",
    "nobody": "no catalog vouches for the metadata",
}


@click.command()
@click.argument("target", metavar="FILE|FOLDER|GLOB|TABLE")
@catalog_option
@click.option("--files", is_flag=True, help="List every file; of a table, open its manifests with its keys.")
@threads_option
@json_option
@click.pass_context
def inspect(
    ctx: click.Context, target: str, *, catalog: str | None, files: bool, threads: int | None, as_json: bool
) -> None:
    """Say what a file, the files of a folder or of a glob, or a table is.

    Knows AGS1 streams, encrypted and plaintext Parquet, Avro, Puffin, table metadata (with its tree of
    keys) and local keystores, here and in every store that the catalog can reach. A TABLE is shown with
    its KEKs, their ages, and the snapshots that need them; only --files needs the KMS. Never shows a key.

    Exit code 0: nothing to object to. 1: findings: a file or table that is not encrypted, a file that is
    malformed or does not belong to an Iceberg table, a key that is missing. 2: something could not be checked.
    """
    found = resolve(target, catalog)
    if not isinstance(found, TableName) and not found.several:
        location = found.locations[0]
        identified = identify_in(found.io, location)
        if not files or identified.kind != "metadata" or identified.problem is not None:
            ctx.exit(_show_file(target, identified, catalog, as_json=as_json))
    result = _inspected(target, found, catalog, files=files, threads=threads)
    if as_json:
        print_json(result.to_json())
    else:
        for line in (*_result_lines(result, listed=files), *_finding_lines(result)):
            click.echo(safe(line))
    ctx.exit(result.exit_code)


def _inspected(
    target: str, found: Files | TableName, catalog: str | None, *, files: bool, threads: int | None
) -> Inspection:
    if not isinstance(found, TableName) and found.several:
        return inspect_files(target, found, threads=threads)

    from sealberg.catalogs.load import catalog_properties, load_catalog
    from sealberg.jobs.checks.table_state import load, of_table
    from sealberg.jobs.inspect_table import inspect_table
    from sealberg.table.static_table import open_table

    if isinstance(found, TableName):
        opened = load_catalog(catalog)
        return inspect_table(load(opened, found.name), catalog=opened.name, files=files, threads=threads)
    _, properties = catalog_properties(catalog)
    table = open_table(found.locations[0], {k: v for k, v in properties.items() if isinstance(v, str)})
    return inspect_table(of_table(table), files=files, threads=threads)


# -- one file ---------------------------------------------------------------------------------------


def _show_file(file: str, found: Identified, catalog: str | None, *, as_json: bool) -> int:
    keks = metadata_keks(found, now_ms=_now_ms(), lifespan_ms=_lifespan_ms(catalog))
    findings = list(file_findings(file, file, found))
    if as_json:
        shown = {"keks": [asdict(kek) for kek in keks], "findings": [asdict(each) for each in findings]}
        print_json({"file": file, **asdict(found), **shown})
    elif found.problem is None:
        for line in (*_file_lines(file, found, keks), *map(_finding_line, findings)):
            click.echo(safe(line))
    if found.problem is not None:
        click.echo(safe(f"error: {file}: {found.summary}, but {found.problem}"), err=True)
    return 1 if findings else 0


def _lifespan_ms(catalog: str | None) -> int:
    if catalog is None:
        return KEK_LIFESPAN_MS
    from sealberg.catalogs.load import catalog_properties
    from sealberg.keys.manager import EncryptionSettings

    return EncryptionSettings.from_properties(
        catalog, {"encryption.key-id": "any"}, catalog_properties(catalog)[1]
    ).kek_lifespan_ms


def _file_lines(file: str, found: Identified, keks: Sequence[KekFacts]) -> Iterator[str]:
    yield f"{file}: {found.summary}"
    yield f"  encrypted      {'yes' if found.encrypted else 'no'}"
    yield f"  stored length  {size(found.stored_length)}"
    facts = found.facts
    if found.kind == "ags1":
        blocks = facts["block_count"]
        yield f"  plain length   {size(facts['plain_length'])}"
        yield f"  blocks         {blocks} of up to 1 MiB; the length fits the layout"
        yield "  note           missing blocks at the end can be detected only with the key metadata"
    if "footer_length" in facts:
        yield f"  footer         {size(facts['footer_length'])}"
    if found.kind == "metadata":
        yield f"  format         version {facts['format_version']}, {facts['snapshots']} snapshots"
        yield f"  table          {facts['table_uuid']} at {facts['location']}"
        yield f"  key id         {facts['key_id'] or 'none: this table is not encrypted'}"
    if found.key_tree is not None:
        yield from _tree(found.key_tree, keks, facts["current_snapshot_id"])


# -- several files, and tables ----------------------------------------------------------------------


def _result_lines(result: Inspection, *, listed: bool) -> Iterator[str]:
    if result.table is not None:
        yield from _table_lines(result, result.table)
    else:
        yield f"{result.target}: {_count(len(result.files), 'file')}"
        for form in sorted({file.form for file in result.files}):
            of_form = [file for file in result.files if file.form == form]
            yield f"  {form:<18} {_amount(len(of_form), sum(file.stored_length for file in of_form))}"
    if listed:
        yield from map(_file_line, result.files)


def _table_lines(result: Inspection, table: TableFacts) -> Iterator[str]:
    yield f"{table.name}: {'encrypted table' if table.encrypted else 'table, not encrypted'}"
    where = f"{result.catalog}: " if result.catalog is not None else ""
    yield f"  catalog        {where}{VOUCHING[table.vouched_by]}"
    yield f"  metadata       {table.metadata_location}"
    if table.location:
        yield f"  table          {table.table_uuid} at {table.location}"
    yield f"  key id         {table.key_id or 'none: this table is not encrypted'}"
    yield f"  snapshots      {len(table.snapshots)}"
    if result.summary:
        yield f"  current        {_summary(result.summary)}"
    for kind in table.kinds:
        yield f"  {kind.kind:<14} {_amount(kind.files, kind.bytes)}"
    if result.tree is not None:
        yield from _tree(result.tree, table.keks, table.current_snapshot_id)


def _summary(summary: dict[str, str]) -> str:
    words = (("total-records", "rows"), ("total-data-files", "data files"), ("total-delete-files", "delete files"))
    parts = [f"{summary[name]} {noun}" for name, noun in words if name in summary]
    total = summary.get("total-files-size", "")
    return ", ".join([*parts, *([readable(int(total))] if total.isdecimal() else [])])


def _file_line(file: InspectedFile) -> str:
    kind = f"{file.kind:<17} " if file.kind is not None else ""
    return f"  {kind}{file.form:<18} {readable(file.stored_length):>10}  {file.location}"


def _finding_lines(result: Inspection) -> Iterator[str]:
    yield from map(_finding_line, result.findings)
    for missing in result.not_checked:
        yield f"! not checked: {missing.what}: {missing.why}"


def _finding_line(finding: Finding) -> str:
    where = f"{finding.file}: " if finding.file is not None else ""
    return f"! {finding.code}: {where}{finding.message}"


# -- the tree of keys -------------------------------------------------------------------------------


def _tree(tree: KeyTree, keks: Iterable[KekFacts], current: int | None) -> Iterator[str]:
    facts, now_ms = {kek.key_id: kek for kek in keks}, _now_ms()
    for master in tree.master_keys:
        yield f"master key {master.key_id} (in the KMS)"
        for branch, stem, kek in _branches(master.keks):
            made = moment(kek.made_ms) if kek.made_ms is not None else "no KEY_TIMESTAMP"
            known = facts.get(kek.key_id)
            state = f" ({age_text(known, now_ms)}), {state_text(known, now_ms)}" if known is not None else ""
            yield f"{branch} KEK {kek.key_id}, made {made}{state}, wrapped in {kek.wrapped_length} bytes"
            for twig, _, key in _branches(kek.list_keys):
                yield f"{stem} {twig} list key {key.key_id}: {_users(key, current)}"


def _branches(children: Sequence[T]) -> Iterator[tuple[str, str, T]]:
    for i, child in enumerate(children, 1):
        yield ("└─", "  ", child) if i == len(children) else ("├─", "│ ", child)


def _users(key: ListKey, current: int | None) -> str:
    def shown(snapshot: int) -> str:
        return f"snapshot {snapshot}{' (current)' if snapshot == current else ''}"

    users = [*map(shown, key.snapshots), *(f"statistics of {shown(each)}" for each in key.statistics)]
    return ", ".join(users) or "no snapshot uses it"


def _amount(files: int, stored: int) -> str:
    return f"{_count(files, 'file')}, {readable(stored)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
