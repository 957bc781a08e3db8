"""`sealberg trust TABLE`: what the catalog vouches for, what is in storage, and whether to accept it.

A catalog refuses metadata that it did not commit itself. Where another tool of yours has changed the table, this
shows what it changed and vouches for that. Whoever says yes here is the one who trusts the storage this once.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from sealberg.cli.console import json_option, moment, print_json
from sealberg.errors import ConfigError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.table.catalogs.metastore import SealedMetastore
    from sealberg.table.metadata import V3TableMetadata
    from sealberg.table.trust import Trust


@click.command()
@click.argument("table")
@click.option(
    "--catalog", metavar="NAME", help="Of a catalog in PyIceberg's configuration; the default one if left out."
)
@click.option("-y", "--yes", is_flag=True, help="Accept without asking.")
@json_option
def trust(table: str, catalog: str | None, *, yes: bool, as_json: bool) -> None:
    """Accept a change that another tool made to the encrypted table TABLE.

    Shows what the catalog vouches for, what is in storage and how they differ, and asks. Another key
    id or key length is refused: such metadata belong to another table. Needs no key.
    Exit code 0 means that the catalog vouches for what is there now.
    """
    from pyiceberg.exceptions import NoSuchTableError

    from sealberg.table.catalogs import load_catalog
    from sealberg.table.catalogs.metastore import SealedMetastore

    if "." not in table:
        raise ConfigError(f"expected NAMESPACE.TABLE, found {table}")
    with load_catalog(catalog) as opened:
        if not isinstance(opened, SealedMetastore):
            raise UnsupportedError(f"catalog {opened.name} keeps no trust of its own; SQL, Hive and Glue catalogs do")
        try:
            _trust(opened, table, yes=yes, as_json=as_json)
        except NoSuchTableError as error:
            raise ConfigError(f"no table {table} in the catalog {opened.name}") from error


def _trust(catalog: SealedMetastore, table: str, *, yes: bool, as_json: bool) -> None:
    trusted = catalog.trusted(table)
    found, metadata = catalog.found(table)
    if found is None and trusted is None:
        raise ConfigError(f"{table} is not encrypted, so there is nothing to vouch for")
    vouched = catalog.vouched_metadata(trusted) if trusted is not None else None
    told = {
        "table": table,
        "trusted": None if trusted is None else asdict(trusted),
        "found": None if found is None else asdict(found),
        "changes": None if vouched is None else _changes(vouched, metadata),
        "accepted": False,
    }
    if not as_json:
        for line in _lines(trusted, found, told["changes"]):
            click.echo(line)
    if found != trusted:
        if trusted is None or trusted.same_keys(found):  # else there is nothing to ask: the catalog will refuse
            _confirm("Vouch for what was found?", yes=yes)
        catalog.trust(table, found)
    told["accepted"] = True
    if as_json:
        print_json(told)
    else:
        click.echo("nothing to accept" if found == trusted else "the catalog vouches for what was found")


def _changes(before: V3TableMetadata, after: V3TableMetadata) -> dict[str, Any]:
    old = {snapshot.snapshot_id: snapshot for snapshot in before.snapshots}
    new = {snapshot.snapshot_id: snapshot for snapshot in after.snapshots}
    names = sorted(before.properties.keys() | after.properties.keys())
    return {
        "same_table": before.table_uuid == after.table_uuid,
        "snapshots_added": [_snapshot(each) for each_id, each in new.items() if each_id not in old],
        "snapshots_removed": [_snapshot(each) for each_id, each in old.items() if each_id not in new],
        "current_snapshot": [before.current_snapshot_id, after.current_snapshot_id],
        "properties": {
            name: [before.properties.get(name), after.properties.get(name)]
            for name in names
            if before.properties.get(name) != after.properties.get(name)
        },
    }


def _snapshot(snapshot: Any) -> dict[str, Any]:
    summary = snapshot.summary
    return {
        "snapshot_id": snapshot.snapshot_id,
        "timestamp_ms": snapshot.timestamp_ms,
        "operation": summary.operation.value if summary else None,
        "added_records": summary.additional_properties.get("added-records") if summary else None,
    }


def _lines(trusted: Trust | None, found: Trust | None, changes: Any) -> Iterator[str]:
    columns = {"metadata_location": "metadata", "metadata_hash": "hash", "key_id": "key id", "key_length": "key length"}
    for name, words in columns.items():
        was = getattr(trusted, name, None)
        now = getattr(found, name, None)
        yield (
            f"{words:<12} {_said(trusted, name)}"
            if was == now and found
            else f"{words:<12} trusted  {_said(trusted, name)}"
        )
        if was != now or not found:
            yield f"{'':<12} found    {_said(found, name)}"
    if changes is None:
        yield "the metadata that the catalog vouches for are not there any more, so the changes cannot be told"
        return
    if not changes["same_table"]:
        yield "! these are the metadata of another table"
    for sign, snapshots in (("+", changes["snapshots_added"]), ("-", changes["snapshots_removed"])):
        for each in snapshots:
            rows = f", {each['added_records']} rows" if each["added_records"] else ""
            yield f"{sign} snapshot {each['snapshot_id']}, {each['operation']}{rows}, {moment(each['timestamp_ms'])}"
    if changes["current_snapshot"][0] != changes["current_snapshot"][1]:
        yield "~ current snapshot {} -> {}".format(*changes["current_snapshot"])
    for name, (was, now) in changes["properties"].items():
        yield f"~ {name}: {was} -> {now}"


def _said(trust: Trust | None, name: str) -> str:
    value = getattr(trust, name, None)
    if trust is None or (value is None and name != "key_length"):
        return "nothing"
    return "the default" if value is None else str(value)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("not confirmed: there is no terminal to ask at, expected --yes")
    click.confirm(question, abort=True, err=True)
