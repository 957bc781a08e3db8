"""`sealberg kms check`: wraps and unwraps a random key; shows the time of each call and missing permissions.

--catalog prod                    the KMS client of a catalog, and the master keys that its configuration names;
                                  if it names none, the master keys of all tables of the catalog
--kms-type vault --key-id hr      a KMS client and a master key that the command line names
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sealberg.cli.console import json_option, print_json, safe
from sealberg.errors import ConfigError, KeyAccessError, NothingThereError, SealbergError
from sealberg.keys.kms.client import KMS_IMPL, KMS_TYPE, client_from_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sealberg.keys.kms.client import KmsClient


@click.group("kms")
def kms_group() -> None:
    """Check a key management service."""


@kms_group.command()
@click.option(
    "--catalog", metavar="NAME", help="Check the KMS that this catalog of PyIceberg's configuration would use."
)
@click.option("--kms-type", help="aws, gcp, azure, vault, keystore, pkcs11, memory, or a registered type.")
@click.option("--kms-impl", help="A client class by its dotted path, or Java's class name.")
@click.option(
    "--key-id",
    "key_ids",
    multiple=True,
    metavar="ID",
    help="A master key, as encryption.key-id would name it; may be repeated. "
    "With --catalog, the default is every master key that the catalog's configuration names, or else every master key "
    "of a table of the catalog.",
)
@click.option(
    "-p", "--property", "properties", multiple=True, metavar="NAME=VALUE", help="A catalog property; may be repeated."
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
    *,
    as_json: bool,
) -> None:
    """Wrap and unwrap a random key with each master key; show the time of each call and missing permissions.

    Readers of a table need to unwrap keys; writers need to wrap keys too. The random key is discarded.

    Exit code 0 means that readers and writers can use every key, 1 that they cannot.
    """
    given = dict(_split(each) for each in properties)
    named = {name: value for name, value in ((KMS_TYPE, kms_type), (KMS_IMPL, kms_impl)) if value is not None}
    unknown: dict[str, str] = {}
    if catalog is not None:
        given, key_ids, unknown = _configured(catalog, named, given, key_ids)
    if not key_ids:
        raise click.UsageError("Missing option '--key-id' or '--catalog'.")
    with _with_prompt(client_from_properties(given | named)) as client:
        keys = [_check(client, key_id) for key_id in dict.fromkeys(key_ids)]
    ok = all(key["ok"] for key in keys) and not unknown
    if as_json:
        told = {"catalog": catalog, "provider": client.provider, "ok": ok, "keys": keys, "unknown_tables": unknown}
        print_json(told)
    else:
        for line in _lines(catalog, client.provider, keys):
            click.echo(safe(line))
        for table, why in unknown.items():
            click.echo(safe(f"the master key of table {table} is not known: {why}"))
    if not ok:
        ctx.exit(1)


def _configured(
    catalog: str, named: Mapping[str, str], given: dict[str, str], key_ids: tuple[str, ...]
) -> tuple[dict[str, str], tuple[str, ...], dict[str, str]]:
    """The catalog's properties with those of the command line, the master keys to check, and tables without."""
    from sealberg.catalogs.load import catalog_properties
    from sealberg.table.policy import EncryptionPolicy

    if named:
        raise click.UsageError("--catalog has a KMS of its own; leave out --kms-type and --kms-impl.")
    name, configured = catalog_properties(catalog)
    merged = {**{key: value for key, value in configured.items() if isinstance(value, str)}, **given}
    if KMS_TYPE not in merged and KMS_IMPL not in merged:
        raise ConfigError(
            f"catalog {name} has no KMS: neither {KMS_TYPE} nor {KMS_IMPL} is among its configured properties"
        )
    key_ids = key_ids or EncryptionPolicy.of(merged).key_ids
    if key_ids:
        return merged, key_ids, {}
    return merged, *_of_tables(name, given)


def _of_tables(name: str, given: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The master keys of all tables, and why it is not known of some."""
    from sealberg.catalogs.load import load_catalog
    from sealberg.jobs.master_keys import master_keys

    none = (
        f"the configuration of catalog {name} names no master key (encryption.default-key-id, "
        "encryption.expected-key-id.TABLE)"
    )
    advice = "name the encryption.key-id of a table with --key-id"
    try:
        found = master_keys(load_catalog(name, **given))
    except (SealbergError, OSError) as error:
        raise ConfigError(f"{none}, and its tables could not be listed: {error}; {advice}") from error
    if not found.by_key:
        tables = "".join(f"; table {table}: {why}" for table, why in found.unknown.items())
        raise NothingThereError(f"{none}, and no table of it is encrypted{tables}; {advice}")
    return tuple(sorted(found.by_key)), found.unknown


def _lines(catalog: str | None, provider: str, keys: list[dict[str, Any]]) -> Iterator[str]:
    where = "" if catalog is None else f"catalog {catalog}, "
    for key in keys:
        yield f"{where}{provider}, key {key['key_id']}"
        for step in key["steps"]:
            yield f"  {step['step']:<9} {_step_text(step)}"
        yield f"  {'ready for readers and writers' if key['ok'] else _verdict(key['steps'])}"


def _with_prompt(client: KmsClient) -> KmsClient:
    """The client; a local keystore prompts for its passphrase if standard input is a terminal."""
    from sealberg.keys.keystore.kms import KeystoreKms

    if not isinstance(client, KeystoreKms) or not sys.stdin.isatty():
        return client
    return client.asking(partial(click.prompt, "Passphrase", hide_input=True, err=True))


def _check(client: KmsClient, key_id: str) -> dict[str, Any]:
    steps = _try(client, key_id)
    return {"key_id": key_id, "ok": all(step["ok"] for step in steps), "steps": steps}


def _try(client: KmsClient, key_id: str) -> list[dict[str, Any]]:
    key = os.urandom(16)
    steps: list[dict[str, Any]] = []
    wrapped = _step(steps, "wrap", lambda: client.wrap(key, key_id))
    if wrapped is None:
        return steps
    back = _step(steps, "unwrap", lambda: client.unwrap(wrapped, key_id))
    if back is not None and back != key:
        steps[-1] |= {"ok": False, "error": "WrongKeyError", "message": "unwrap returned another key than was wrapped"}
    return steps


def _step(steps: list[dict[str, Any]], name: str, act: Callable[[], bytes]) -> bytes | None:
    began = time.perf_counter()
    result: bytes | None = None
    step: dict[str, Any] = {"step": name, "ok": True}
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
    if step["ok"]:
        return f"ok, {step['milliseconds']} ms"
    return f"failed after {step['milliseconds']} ms: {step['error']}: {step['message']}"


def _verdict(steps: list[dict[str, Any]]) -> str:
    denied = next((step for step in steps if step.get("error") == "AccessDeniedError"), None)
    if denied is not None:
        left = "; unwrap was not tried" if denied["step"] == "wrap" else ""
        return f"not ready: these credentials lack the permission to {denied['step']} with this key{left}"
    return "not ready"


def _split(given: str) -> tuple[str, str]:
    name, found, value = given.partition("=")
    if not found or not name:
        # The value is not shown: it may be a secret.
        raise ConfigError(f"--property must be NAME=VALUE, found {name!r} without a value")
    return name, value
