"""`sealberg kms check`: wraps and unwraps a random key; shows the time of each call and missing permissions."""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sealberg.cli.console import json_option, print_json
from sealberg.errors import ConfigError, KeyAccessError, SealbergError
from sealberg.keys.kms.client import KMS_IMPL, KMS_TYPE, client_from_properties

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.keys.kms.client import KmsClient


@click.group("kms")
def kms_group() -> None:
    """Check a key management service."""


@kms_group.command()
@click.option("--kms-type", help="aws, gcp, azure, vault, keystore, pkcs11, memory, or a registered type.")
@click.option("--kms-impl", help="A client class by its dotted path, or Java's class name.")
@click.option("--key-id", required=True, help="The master key, as encryption.key-id would name it.")
@click.option(
    "-p", "--property", "properties", multiple=True, metavar="NAME=VALUE", help="A catalog property; may be repeated."
)
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    kms_type: str | None,
    kms_impl: str | None,
    key_id: str,
    properties: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Wrap and unwrap a random key with KEY_ID; show the time of each call and missing permissions.

    Readers of a table need to unwrap keys; writers need to wrap keys too. The random key is discarded.
    """
    given = dict(_split(each) for each in properties)
    given |= {name: value for name, value in ((KMS_TYPE, kms_type), (KMS_IMPL, kms_impl)) if value is not None}
    with _with_prompt(client_from_properties(given)) as client:
        steps = _try(client, key_id)
    failed = [step for step in steps if not step["ok"]]
    if as_json:
        print_json({"provider": client.provider, "key_id": key_id, "ok": not failed, "steps": steps})
    else:
        click.echo(f"{client.provider}, key {key_id}")
        for step in steps:
            click.echo(f"  {step['step']:<9} {_step_text(step)}")
        click.echo(f"  {'ready for readers and writers' if not failed else _verdict(steps)}")
    if failed:
        ctx.exit(1)


def _with_prompt(client: KmsClient) -> KmsClient:
    """The client; a local keystore prompts for its passphrase if standard input is a terminal."""
    from sealberg.keys.keystore.kms import KeystoreKms

    if not isinstance(client, KeystoreKms) or not sys.stdin.isatty():
        return client
    return client.asking(partial(click.prompt, "Passphrase", hide_input=True, err=True))


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
