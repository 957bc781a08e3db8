"""`sealberg inspect FILE`: identifies a file by its bytes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

from sealberg.cli.console import json_option, moment, print_json, safe, size
from sealberg.files.identify import identify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.files.identify import Finding
    from sealberg.keys.key_tree import KeyTree, ListKey


T = TypeVar("T")


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_option
@click.pass_context
def inspect(ctx: click.Context, file: str, *, as_json: bool) -> None:
    """Identify FILE by its bytes.

    Knows AGS1 streams, encrypted and plaintext Parquet, Avro, Puffin, table metadata (with its tree
    of keys) and local keystores. Needs no key and no catalog.
    Exit code 1 means that the file is truncated or malformed, or is not a file of an Iceberg table.
    """
    found = identify(file)
    if as_json:
        print_json({"file": file, **asdict(found)})
    elif found.problem is None:
        for line in _lines(file, found):
            click.echo(safe(line))
    if found.problem is not None:
        click.echo(safe(f"error: {file}: {found.summary}, but {found.problem}"), err=True)
        ctx.exit(1)


def _lines(file: str, found: Finding) -> Iterator[str]:
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
        yield from _tree(found.key_tree, facts["current_snapshot_id"])
        for path in facts["plaintext_statistics"]:
            yield f"! plaintext statistics file: {path}"


def _tree(tree: KeyTree, current: int | None) -> Iterator[str]:
    for master in tree.master_keys:
        yield f"master key {master.key_id} (in the KMS)"
        for branch, stem, kek in _branches(master.keks):
            made = moment(kek.made_ms) if kek.made_ms is not None else "no KEY_TIMESTAMP"
            yield f"{branch} KEK {kek.key_id}, made {made}, wrapped in {kek.wrapped_length} bytes"
            for twig, _, key in _branches(kek.list_keys):
                yield f"{stem} {twig} list key {key.key_id}: {_users(key, current)}"
    for problem in tree.problems:
        yield f"! {problem}"


def _branches(children: Sequence[T]) -> Iterator[tuple[str, str, T]]:
    for i, child in enumerate(children, 1):
        yield ("└─", "  ", child) if i == len(children) else ("├─", "│ ", child)


def _users(key: ListKey, current: int | None) -> str:
    if not key.snapshots:
        return "no snapshot uses it"
    return ", ".join(f"snapshot {each}{' (current)' if each == current else ''}" for each in key.snapshots)
