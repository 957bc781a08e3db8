"""`sealberg trust TABLE`: compares the trusted metadata with those in storage, and accepts them after confirmation.

    trusted ── the document that the catalog vouches for ─┐
    found   ── the document in storage                   ─┴─> every difference, by group ─> confirm ─> vouch

A catalog refuses metadata that it did not commit itself. If another tool of the user has changed the table, this
command shows the changes and makes the catalog vouch for them. The user who confirms trusts the storage this once.

--yes refuses changes that no commit makes: a schema, spec, order, snapshot or key that was changed in place, another
table, and a document with nothing to compare it with. A person at a terminal can accept them after a warning, and a
script can accept them by the hash of the document (--hash).
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from sealberg.catalogs.trusting import TrustingCatalog
from sealberg.cli.console import json_option, moment, print_json, safe
from sealberg.errors import ConfigError, NothingThereError, SealbergError, TrustError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sealberg.metadata.metadata_diff import Difference
    from sealberg.metadata.trust import Trust

SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}
LONGEST: Final = 160


@click.command()
@click.argument("table")
@click.option("--catalog", metavar="NAME", help="A catalog of PyIceberg's configuration; default: the default catalog.")
@click.option("-y", "--yes", is_flag=True, help="Accept without asking, unless something was changed in place.")
@click.option("--hash", "accepted", metavar="HASH", help="Accept the document with this hash, whatever it changes.")
@json_option
def trust(table: str, catalog: str | None, *, yes: bool, accepted: str | None, as_json: bool) -> None:
    """Accept a change that another tool made to the encrypted table TABLE.

    Shows the metadata that the catalog vouches for, the metadata in storage and every difference, and
    asks for confirmation. Another key id or key length is refused: such metadata belong to another
    table. Needs no key.

    --yes refuses a schema, partition spec, sort order, snapshot or encryption key that has its old
    id but other content, and a document that cannot be compared: check it and confirm at a terminal,
    or accept it by its hash.

    Exit code 0 means that the catalog vouches for the metadata in storage.
    """
    from pyiceberg.exceptions import NoSuchTableError

    from sealberg.catalogs.load import load_catalog

    if "." not in table:
        raise ConfigError(f"TABLE must be NAMESPACE.TABLE, found {table}")
    with load_catalog(catalog) as opened:
        if not isinstance(opened, TrustingCatalog):
            raise UnsupportedError(
                f"catalog {opened.name} stores no trust records, so there is nothing to accept; "
                "only SQL, Hive and Glue catalogs do"
            )
        try:
            _trust(opened, table, yes=yes, accepted=accepted, as_json=as_json)
        except NoSuchTableError as error:
            raise NothingThereError(f"no table {table} in the catalog {opened.name}") from error


def _trust(catalog: TrustingCatalog, table: str, *, yes: bool, accepted: str | None, as_json: bool) -> None:
    from sealberg.metadata.metadata_diff import differences

    trusted = catalog.trusted(table)
    found, metadata = catalog.found(table)
    if found is None and trusted is None:
        raise ConfigError(f"table {table} is not encrypted, so the catalog stores no trust record for it")
    vouched = catalog.vouched_document(trusted, metadata) if trusted is not None else None
    changes = None if vouched is None else differences(vouched, metadata.document)
    if not as_json:
        for line in (*_columns(trusted, found), *_lines(trusted, changes)):
            click.echo(line)
    refusal = None
    try:
        if found != trusted:
            if trusted is None or trusted.same_keys(found):  # otherwise the catalog refuses, so nothing is asked
                _confirm(_reasons_to_check(trusted, changes), found, yes=yes, accepted=accepted)
            catalog.trust(table, found)
    except SealbergError as error:
        if not as_json:
            raise
        refusal = error
    if not as_json:
        click.echo("nothing to accept" if found == trusted else "the catalog vouches for what was found")
        return
    print_json(
        {
            "table": table,
            "trusted": None if trusted is None else asdict(trusted),
            "found": None if found is None else asdict(found),
            "compared": changes is not None,
            "changes": [asdict(each) for each in changes or ()],
            "accepted": refusal is None,
            **({} if refusal is None else {"error": {"type": type(refusal).__name__, "message": str(refusal)}}),
        }
    )
    if refusal is not None:
        click.echo(f"error: {safe(str(refusal))}", err=True)
        click.get_current_context().exit(1)


# -- what may be accepted, and how ------------------------------------------------------------------


def _reasons_to_check(trusted: Trust | None, changes: Sequence[Difference] | None) -> list[str]:
    """The reasons why the change must be checked by a person."""
    if changes is None:
        # Without a hash the catalog accepts any document with a warning; there was no document to compare with.
        known = trusted is not None and trusted.metadata_hash is not None
        return ["the document that the catalog vouches for is gone, so changes in place cannot be ruled out"] * known
    return [f"{each.path} was changed in place" for each in changes if each.in_place]


def _confirm(reasons: list[str], found: Trust | None, *, yes: bool, accepted: str | None) -> None:
    if accepted is not None:
        if found is None or accepted != found.metadata_hash:
            raise TrustError(f"expected metadata with the hash {accepted}, found {found and found.metadata_hash}")
        return
    if reasons and yes:
        more = f", and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        raise TrustError(
            f"not accepted by --yes: {'; '.join(reasons[:3])}{more}. No commit does that. "
            "Check the differences and confirm at a terminal, or accept the document with --hash"
        )
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("not confirmed: there is no terminal to ask; use --yes or --hash")
    if reasons:
        click.echo(click.style("WARNING: THIS DOES NOT LOOK LIKE A COMMIT OF ANOTHER TOOL", bold=True), err=True)
        for reason in reasons:
            click.echo(f"  ! {safe(reason)}", err=True)
        click.echo("Say yes only if you know who did this and why: rows may be missing or changed.", err=True)
    click.confirm("Vouch for the metadata in storage?", abort=True, err=True)


# -- what is shown ----------------------------------------------------------------------------------


def _columns(trusted: Trust | None, found: Trust | None) -> Iterator[str]:
    columns = {"metadata_location": "metadata", "metadata_hash": "hash", "key_id": "key id", "key_length": "key length"}
    for name, label in columns.items():
        if found is not None and getattr(trusted, name, None) == getattr(found, name, None):
            yield f"{label:<12} {_value_of(trusted, name)}"
        else:
            yield f"{label:<12} trusted  {_value_of(trusted, name)}"
            yield f"{'':<12} found    {_value_of(found, name)}"


def _value_of(trust: Trust | None, name: str) -> str:
    value = getattr(trust, name, None)
    if trust is None or (value is None and name != "key_length"):
        return "nothing"
    return "the default" if value is None else safe(str(value))


def _lines(trusted: Trust | None, changes: Sequence[Difference] | None) -> Iterator[str]:
    if trusted is None:
        yield "the catalog has no trust record of this table yet, so there is nothing to compare with"
    elif changes is None:
        yield "the document that the catalog vouches for no longer exists, so the changes cannot be shown"
    elif not changes:
        yield "no differences in content"
    group = None
    for each in changes or ():
        if each.group != group:
            group = each.group
            yield f"{group}:"
        mark = "! changed in place: " if each.in_place else ""
        yield f"  {SIGNS[each.change]} {mark}{safe(each.path)}{_values(each)}"


def _values(each: Difference) -> str:
    if each.path.startswith("snapshots[") and each.change != "changed" and "." not in each.path:
        return f": {_snapshot(each.after or each.before)}"
    if each.change == "changed":
        return f": {_text(each.before)} -> {_text(each.after)}"
    return f": {_text(each.after if each.change == 'added' else each.before)}"


def _snapshot(snapshot: dict[str, Any]) -> str:
    """The most important facts of a snapshot; --json has its whole content."""
    summary = snapshot.get("summary")
    summary = summary if isinstance(summary, dict) else {}
    added = summary.get("added-records")
    facts = [summary.get("operation"), f"{added} rows" if added else None]
    made = snapshot.get("timestamp-ms")
    try:
        facts.append(moment(made) if isinstance(made, int) else None)
    except (ValueError, OverflowError, OSError):
        facts.append(f"at {made} ms")
    facts += [f"manifest list {snapshot.get('manifest-list')}", f"key {snapshot.get('key-id')}"]
    return safe(", ".join(str(fact) for fact in facts if fact))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = safe(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters; --json has all of them)"
