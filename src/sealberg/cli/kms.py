"""`sealberg kms check`: does what a role must be able to do; shows the time of each call and missing permissions.

--catalog prod                    the KMS client of a catalog, the master keys that its configuration names and those of
                                  its tables, and a KEK of each table and version of its master key
--kms-type vault --key-id hr      a KMS client and a master key that the command line names; there are no tables

--role reader       unwraps KEKs of tables
--role writer       wraps and unwraps a random key, and unwraps KEKs of tables; the default
--role rewrapper    asks for the newest version, wraps KEKs of tables anew and discards the result, and unwraps them
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from sealberg.cli.console import json_option, print_json, safe
from sealberg.cli.kms_options import configured_properties, given_properties, kms_options, named_client, with_prompt
from sealberg.errors import ConfigError, KeyAccessError, NothingThereError, SealbergError
from sealberg.keys.kms.client import UNVERSIONED, WrappedKey, client_from_properties
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sealberg.keys.kms.client import KmsClient
    from sealberg.table.catalog_table import CatalogTable

T = TypeVar("T")

ROLES: Final = {"reader": "readers", "writer": "readers and writers", "rewrapper": "rewrapping"}


@click.group("kms")
def kms_group() -> None:
    """Check a key management service."""


@kms_group.command()
@kms_options
@click.option(
    "--key-id",
    "key_ids",
    multiple=True,
    metavar="ID",
    help="A master key, as encryption.key-id would name it; may be repeated. "
    "With --catalog, the default is every master key that the catalog's configuration or a table of the catalog names.",
)
@click.option(
    "--role",
    type=click.Choice(list(ROLES)),
    default="writer",
    show_default=True,
    help="What these credentials are for: a reader only unwraps, a rewrapper is for `sealberg rewrap`.",
)
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    catalog: str | None,
    kms_type: str | None,
    kms_impl: str | None,
    key_ids: tuple[str, ...],
    properties: tuple[str, ...],
    role: str,
    *,
    as_json: bool,
) -> None:
    """Do with each master key what a role does, and show the time of each call and missing permissions.

    Readers of a table need to unwrap keys; writers need to wrap keys too. With --catalog, a KEK of each table and of
    each version of its master key is unwrapped. What a writer wraps is a random key, which is discarded; nothing that
    tables have is changed.

    Exit code 0 means that the role can use every key, 1 that it cannot, 2 that it is not known: a table or the catalog
    could not be loaded, or there is nothing to unwrap.
    """
    given, named = given_properties(properties), named_client(kms_type, kms_impl)
    found = _Found()
    if catalog is not None:
        given, key_ids, found = _configured(catalog, named, given, key_ids)
    elif role != "writer":
        raise click.UsageError(f"A {role} is tried on the KEKs of tables; name their catalog with --catalog.")
    if not key_ids:
        raise click.UsageError("Missing option '--key-id' or '--catalog'.")
    with with_prompt(client_from_properties(given | named)) as client:
        keys = [_check(client, role, key_id, found.of(key_id)) for key_id in dict.fromkeys(key_ids)]
    failed = not all(key["ok"] for key in keys)
    unproved = bool(found.unknown) or not all(key["steps"] for key in keys)
    if as_json:
        told = {"catalog": catalog, "provider": client.provider, "role": role, "ok": not failed and not unproved}
        print_json({**told, "keys": keys, "unknown_tables": found.unknown})
    else:
        for line in _lines(catalog, client.provider, role, keys):
            click.echo(safe(line))
        for table, why in found.unknown.items():
            click.echo(safe(f"not checked: {table}: {why}"))
    ctx.exit(1 if failed else 2 if unproved else 0)


@dataclass
class _Found:
    """The tables of a catalog, and why others are not known."""

    tables: list[CatalogTable] = field(default_factory=list)
    unknown: dict[str, str] = field(default_factory=dict)

    def of(self, key_id: str) -> list[CatalogTable]:
        return [table for table in self.tables if table.metadata.properties.get(KEY_ID_PROPERTY) == key_id]

    @property
    def key_ids(self) -> set[str]:
        return {table.metadata.properties[KEY_ID_PROPERTY] for table in self.tables}


def _configured(
    catalog: str, named: dict[str, str], given: dict[str, str], key_ids: tuple[str, ...]
) -> tuple[dict[str, str], tuple[str, ...], _Found]:
    """The catalog's properties with those of the command line, the master keys to check, and the tables."""
    from sealberg.table.policy import EncryptionPolicy

    name, merged = configured_properties(catalog, named, given)
    configured_ids = key_ids or EncryptionPolicy.of(merged).key_ids
    none = (
        f"the configuration of catalog {name} names no master key (encryption.default-key-id, "
        "encryption.expected-key-id.TABLE)"
    )
    advice = "name the encryption.key-id of a table with --key-id"
    try:
        found = _tables(name, given)
    except (SealbergError, OSError) as error:
        if not configured_ids:
            raise ConfigError(f"{none}, and its tables could not be listed: {error}; {advice}") from error
        found = _Found(unknown={f"catalog {name}": f"its tables could not be listed: {error}"})
    every = key_ids or tuple(dict.fromkeys((*configured_ids, *sorted(found.key_ids))))
    if not every:
        tables = "".join(f"; table {table}: {why}" for table, why in found.unknown.items())
        raise NothingThereError(f"{none}, and no table of it is encrypted{tables}; {advice}")
    return merged, every, found


def _tables(name: str, given: Mapping[str, str]) -> _Found:
    """The encrypted tables of a catalog; loading them asks no KMS."""
    from sealberg.catalogs.load import load_catalog
    from sealberg.jobs.key_jobs import selected

    found = _Found()
    with suppress(NothingThereError):
        for each in selected((), load_catalog(name, **given), every=True)[1]:
            if each.table is not None:
                found.tables.append(each.table)
            elif each.status == "failed":
                found.unknown[f"table {each.name}"] = each.reason
    return found


def _lines(catalog: str | None, provider: str, role: str, keys: list[dict[str, Any]]) -> Iterator[str]:
    where = "" if catalog is None else f"catalog {catalog}, "
    for key in keys:
        yield f"{where}{provider}, key {key['key_id']}"
        for step in key["steps"]:
            yield f"  {step['step']:<9} {_step_text(step)}"
        yield f"  {_verdict(role, key)}"


def _check(client: KmsClient, role: str, key_id: str, tables: list[CatalogTable]) -> dict[str, Any]:
    from sealberg.jobs.key_health import keks_by_version

    steps = _random_key(client, key_id) if role == "writer" else []
    keks = [
        (".".join(table.name()), kek, version)
        for table in tables
        for kek, version in keks_by_version(client, key_id, table.metadata)
    ]
    newest = None
    if role == "rewrapper" and keks:
        newest = _step(steps, "newest", lambda: client.newest_version(key_id))
    for table, kek, version in keks:
        of = f"{table}, KEK {kek.key_id}" + ("" if version in (None, UNVERSIONED) else f", version {version}")
        wrapped = WrappedKey(kek.encrypted_key_metadata, kek.properties)
        if role == "rewrapper":
            _step(steps, "rewrap", partial(client.rewrap, wrapped, key_id), of)
            _step(steps, "unwrap", partial(client.unwrap_by, wrapped, key_id, newest), of)
        else:
            _step(steps, "unwrap", partial(client.unwrap, wrapped, key_id), of)
    return {"key_id": key_id, "ok": all(step["ok"] for step in steps), "keks": len(keks), "steps": steps}


def _random_key(client: KmsClient, key_id: str) -> list[dict[str, Any]]:
    key = os.urandom(16)
    steps: list[dict[str, Any]] = []
    wrapped = _step(steps, "wrap", lambda: client.wrap(key, key_id))
    if wrapped is None:
        return steps
    back = _step(steps, "unwrap", lambda: client.unwrap(wrapped, key_id))
    if back is not None and back != key:
        steps[-1] |= {"ok": False, "error": "WrongKeyError", "message": "unwrap returned another key than was wrapped"}
    return steps


def _step(steps: list[dict[str, Any]], name: str, act: Callable[[], T], of: str = "") -> T | None:
    began = time.perf_counter()
    result: T | None = None
    step: dict[str, Any] = {"step": name, "ok": True, **({"of": of} if of else {})}
    try:
        result = act()
    except (KeyAccessError, ConfigError) as error:
        step |= {"ok": False, **_error_json(error)}
    step["milliseconds"] = round((time.perf_counter() - began) * 1000, 1)
    steps.append(step)
    return result


def _error_json(error: SealbergError) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)}


def _step_text(step: dict[str, Any]) -> str:
    of = f" ({step['of']})" if "of" in step else ""
    if step["ok"]:
        return f"ok, {step['milliseconds']} ms{of}"
    return f"failed{of} after {step['milliseconds']} ms: {step['error']}: {step['message']}"


def _verdict(role: str, key: dict[str, Any]) -> str:
    steps = key["steps"]
    if not steps:
        return f"not proved: no table has a KEK under this key, on which a {role} could be tried"
    if key["ok"]:
        tried = f"; {key['keks']} KEK{'' if key['keks'] == 1 else 's'} of tables opened" if key["keks"] else ""
        return f"ready for {ROLES[role]}{tried}"
    denied = next((step for step in steps if step.get("error") == "AccessDeniedError"), None)
    if denied is not None:
        left = "; unwrap was not tried" if denied["step"] == "wrap" and len(steps) == 1 else ""
        lacks = f"these credentials lack the permission to {denied['step']} with this key"
        return f"not ready for {ROLES[role]}: {lacks}{left}"
    return f"not ready for {ROLES[role]}"
