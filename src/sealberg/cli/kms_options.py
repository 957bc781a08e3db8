"""The options that name a key management service: a catalog that has one, or the client and its properties."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sealberg.errors import ConfigError
from sealberg.keys.kms.client import KMS_IMPL, KMS_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealberg.keys.kms.client import KmsClient

Command = TypeVar("Command", bound="Callable[..., Any]")


def kms_options(command: Command) -> Command:
    """Adds --catalog, --kms-type, --kms-impl and -p to a command."""
    for option in reversed(
        (
            click.option("--catalog", metavar="NAME", help="Use the KMS of this catalog of PyIceberg's configuration."),
            click.option("--kms-type", help="aws, gcp, azure, vault, keystore, pkcs11, memory, or a registered type."),
            click.option("--kms-impl", help="A client class by its dotted path, or Java's class name."),
            click.option(
                "-p",
                "--property",
                "properties",
                multiple=True,
                metavar="NAME=VALUE",
                help="A catalog property; may be repeated.",
            ),
        )
    ):
        command = option(command)
    return command


def named_client(kms_type: str | None, kms_impl: str | None) -> dict[str, str]:
    """The properties for --kms-type and --kms-impl."""
    return {name: value for name, value in ((KMS_TYPE, kms_type), (KMS_IMPL, kms_impl)) if value is not None}


def given_properties(properties: tuple[str, ...]) -> dict[str, str]:
    """The properties that -p has given."""
    return dict(_split(each) for each in properties)


def configured_properties(catalog: str, named: dict[str, str], given: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The name of a catalog that has a KMS, and its properties with those of the command line."""
    from sealberg.catalogs.load import catalog_properties

    if named:
        raise click.UsageError("--catalog has a KMS of its own; leave out --kms-type and --kms-impl.")
    name, configured = catalog_properties(catalog)
    merged = {**{key: value for key, value in configured.items() if isinstance(value, str)}, **given}
    if KMS_TYPE not in merged and KMS_IMPL not in merged:
        raise ConfigError(
            f"catalog {name} has no KMS: neither {KMS_TYPE} nor {KMS_IMPL} is among its configured properties"
        )
    return name, merged


def kms_properties(
    catalog: str | None, kms_type: str | None, kms_impl: str | None, properties: tuple[str, ...]
) -> dict[str, str]:
    """The properties of the KMS client that the options name."""
    named, given = named_client(kms_type, kms_impl), given_properties(properties)
    return configured_properties(catalog, named, given)[1] if catalog is not None else given | named


def with_prompt(client: KmsClient) -> KmsClient:
    """The client; a local keystore prompts for its passphrase if standard input is a terminal."""
    from sealberg.keys.keystore.kms import KeystoreKms

    if not isinstance(client, KeystoreKms) or not sys.stdin.isatty():
        return client
    return client.asking(partial(click.prompt, "Passphrase", hide_input=True, err=True))


def _split(given: str) -> tuple[str, str]:
    name, found, value = given.partition("=")
    if not found or not name:
        # The value is not shown: it may be a secret.
        raise ConfigError(f"--property must be NAME=VALUE, found {name!r} without a value")
    return name, value
