"""`sealberg keystore`: creates and changes the file that holds master keys.

    create    a new file            list      ids, lengths, creation times; never keys
    add       a new random key      passwd    a new passphrase
    import    keys of a PKCS12 store of Java          export    a PKCS12 store for Java

Before a command replaces a file, it shows its plan and asks for confirmation. Secrets come from a file,
the environment or a prompt, never from an argument: every user of the machine can see arguments.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from sealberg.cli.console import json_option, print_json
from sealberg.errors import ConfigError, KeyNotFoundError
from sealberg.keys.keystore import age, pkcs12, private_file
from sealberg.keys.keystore.jwk import DEFAULT_LENGTH, Keystore, MasterKey
from sealberg.keys.keystore.kms import (
    DEFAULT_ENV,
    JAVA_ENV,
    JAVA_PATH,
    KeystoreFile,
    PassphraseSource,
    default_path,
    read_pkcs12,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_LENGTHS: Final = click.Choice(["16", "24", "32"])

path_option = click.option("--path", type=_FILE, help="The keystore; default: ~/.sealberg/keystore.age.")
passphrase_file_option = click.option(
    "--passphrase-file", type=_FILE, help="A file that holds the passphrase as its only line."
)
passphrase_env_option = click.option(
    "--passphrase-env",
    default=DEFAULT_ENV,
    show_default=True,
    metavar="NAME",
    help="The environment variable that holds it.",
)
password_file_option = click.option(
    "--password-file",
    type=_FILE,
    help=f"A file with the store's password; default: the variable {JAVA_ENV}, or a prompt.",
)
length_option = click.option(
    "--length", type=_LENGTHS, default=str(DEFAULT_LENGTH), show_default=True, help="Length of the new key in bytes."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def keystore_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options for the path of the keystore and the source of its passphrase."""
    for option in (json_option, passphrase_env_option, passphrase_file_option, path_option):
        command = option(command)
    return command


@click.group("keystore")
def keystore_group() -> None:
    """Manage master keys in a local file encrypted with a passphrase."""


@keystore_group.command()
@click.option("--key", "ids", multiple=True, metavar="ID", help="Also create this master key; may be repeated.")
@length_option
@click.option(
    "--work-factor",
    type=click.IntRange(10, age.MAX_WORK_FACTOR),
    default=age.WORK_FACTOR,
    show_default=True,
    help="log2 of scrypt's N: each step doubles the time to open the keystore and to guess the passphrase.",
)
@click.option(
    "--if-not-exists", is_flag=True, help="If the keystore exists, keep it and create only the keys that it lacks."
)
@keystore_options
def create(
    *,
    path: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str,
    ids: tuple[str, ...],
    length: str,
    work_factor: int,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Create a new keystore."""
    file = _file(path)
    if if_not_exists and file.path.exists():
        _add_missing(file, _passphrase(passphrase_file, passphrase_env), ids, int(length), as_json=as_json)
        return
    if file.path.exists():
        # Checked before the prompt for a passphrase.
        raise ConfigError(f"cannot create {file.path}: the file exists already and is not overwritten")
    now = datetime.now(UTC)
    keystore = Keystore(tuple(MasterKey.generate(each, now, int(length)) for each in ids))
    passphrase = _passphrase(passphrase_file, passphrase_env, "New passphrase", confirm=True)
    file.create(keystore, passphrase, work_factor=work_factor)
    if as_json:
        print_json(_facts(file, keystore.keys))
        return
    click.echo(f"created {file.path}, readable only by you (mode 0600)")
    _show(keystore.keys)
    _remind()
    if not ids:
        _hint("create a master key for tables with encryption.key-id=ID: sealberg keystore add ID")


def _add_missing(file: KeystoreFile, passphrase: str, ids: Iterable[str], length: int, *, as_json: bool) -> None:
    known = {key.id for key in file.read(passphrase).keys}
    now = datetime.now(UTC)
    missing = [MasterKey.generate(each, now, length) for each in ids if each not in known]
    if missing:
        file.add(passphrase, missing)
    if as_json:
        print_json(_facts(file, missing))
        return
    click.echo(f"{file.path} exists already and is kept")
    if missing:
        _show(missing)
        _remind()


@keystore_group.command()
@click.argument("id")
@length_option
@keystore_options
def add(
    *,
    id: str,  # noqa: A002 (the name of the argument)
    path: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str,
    length: str,
    as_json: bool,
) -> None:
    """Create the master key ID."""
    file = _file(path)
    key = MasterKey.generate(id, datetime.now(UTC), int(length))
    file.add(_passphrase(passphrase_file, passphrase_env), [key])
    if as_json:
        print_json(_facts(file, [key], previous=file.previous))
        return
    click.echo(f"added to {file.path}")
    _show([key])
    _remind()


@keystore_group.command("list")
@keystore_options
def list_keys(path: Path | None, passphrase_file: Path | None, passphrase_env: str, *, as_json: bool) -> None:
    """Show ids, lengths and creation times of keys, never a key."""
    file = _file(path)
    keystore = file.read(_passphrase(passphrase_file, passphrase_env))
    if as_json:
        print_json(_facts(file, keystore.keys))
        return
    click.echo(f"{file.path}, {_count(keystore.keys)}")
    _show(keystore.keys)
    if not keystore.keys:
        _hint("create a master key: sealberg keystore add ID")


@keystore_group.command()
@click.option("--new-passphrase-file", type=_FILE, help="A file that holds the new passphrase as its only line.")
@click.option("--new-passphrase-env", metavar="NAME", help="The environment variable that holds the new passphrase.")
@yes_option
@keystore_options
def passwd(
    *,
    path: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str,
    new_passphrase_file: Path | None,
    new_passphrase_env: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Change the passphrase."""
    file = _file(path)
    old = _passphrase(passphrase_file, passphrase_env, "Old passphrase")
    keystore = file.read(old)
    new = _new_passphrase(new_passphrase_file, new_passphrase_env)
    _plan(
        f"{_count(keystore.keys)} of {file.path} will be encrypted with the new passphrase",
        f"the previous file stays at {file.previous}, encrypted with the old passphrase",
    )
    _confirm("Change the passphrase?", yes=yes)
    keystore = file.change_passphrase(old, new)
    if as_json:
        print_json(_facts(file, keystore.keys, previous=file.previous))
        return
    click.echo(f"changed the passphrase of {file.path}")
    _hint(f"the old passphrase still opens {file.previous} and all older copies: delete the copies you do not need")


@keystore_group.command("import")
@click.argument("store", type=_FILE)
@password_file_option
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="ALIAS=ID",
    help="Import the key ALIAS as ID, for tables whose encryption.key-id is not in lower case.",
)
@yes_option
@keystore_options
def import_keys(
    *,
    store: Path,
    path: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str,
    password_file: Path | None,
    renames: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Import the AES keys of a PKCS12 STORE of Java's KeyStoreKmsClient or keytool.

    Java stores aliases in lower case. A key that the keystore has already is skipped; a different key
    with an existing id is refused, because replacing the key would lose its tables.
    """
    file = _file(path)
    found = _renamed(read_pkcs12(store, _password(password_file)), renames)
    passphrase = _passphrase(passphrase_file, passphrase_env)
    new = _new_keys(file.read(passphrase), found)
    _plan(f"{_count(new)} of {store} will be added to {file.path}", *(f"  {key.id}" for key in new))
    if new:
        _confirm("Import?", yes=yes)
        file.add(passphrase, new)
    if as_json:
        print_json(_facts(file, new, **({"previous": file.previous} if new else {})))
        return
    click.echo(f"added {_count(new)} to {file.path}")
    _show(new)
    if new:
        _remind()


@keystore_group.command("export")
@click.argument("store", type=_FILE)
@password_file_option
@click.option("--key", "ids", multiple=True, metavar="ID", help="Only this master key; may be repeated.")
@yes_option
@keystore_options
def export_keys(
    *,
    store: Path,
    path: Path | None,
    passphrase_file: Path | None,
    passphrase_env: str,
    password_file: Path | None,
    ids: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Write master keys to a PKCS12 STORE, for Java's KeyStoreKmsClient."""
    file = _file(path)
    if store.resolve() in {file.path.resolve(), file.previous, *file.generations}:
        raise ConfigError(f"cannot export to {store}: it is the keystore itself; name another file")
    keystore = file.read(_passphrase(passphrase_file, passphrase_env))
    keys = [_wanted(keystore, each) for each in ids] or list(keystore.keys)
    content = pkcs12.seal(keys, _password(password_file, confirm=True))
    kept: dict[str, Path] = {}
    if store.exists():
        _plan(f"{store} exists and will be replaced; its content is kept as {private_file.previous(store)}")
        _confirm("Replace it?", yes=yes)
        kept["previous"] = private_file.replace(store, content)
    else:
        private_file.create(store, content)
    if as_json:
        print_json({**_facts(file, keys, **kept), "store": str(store)})
        return
    click.echo(f"wrote {_count(keys)} to {store}, readable only by you (mode 0600)")
    _show(keys)
    _hint(f"in Java: set {JAVA_PATH}={store.absolute()}, and the variable {JAVA_ENV} to the password")
    if any(key.id != key.id.lower() for key in keys):
        _hint("Java compares key ids in lower case")


# Secrets


def _file(path: Path | None) -> KeystoreFile:
    return KeystoreFile(path.expanduser().absolute() if path else default_path())


def _passphrase(file: Path | None, env: str, text: str = "Passphrase", *, confirm: bool = False) -> str:
    missing = (
        f"no passphrase: use --passphrase-file FILE, set the environment variable {DEFAULT_ENV} "
        "(or the variable that --passphrase-env names), or run in a terminal to be asked"
    )
    return PassphraseSource(file, env, missing, _ask(text, confirm=confirm)).get()


def _new_passphrase(file: Path | None, env: str | None) -> str:
    missing = "no new passphrase: use --new-passphrase-file FILE or --new-passphrase-env NAME, or run in a terminal"
    ask = _ask("New passphrase", confirm=True)
    if env is not None or file is not None:
        return PassphraseSource(file, env or DEFAULT_ENV, missing).get()
    if ask is None:
        raise ConfigError(missing)
    return ask()


def _password(file: Path | None, *, confirm: bool = False) -> str:
    missing = f"no password for the PKCS12 store: use --password-file FILE, set {JAVA_ENV}, or run in a terminal"
    return PassphraseSource(file, JAVA_ENV, missing, _ask("Password of the PKCS12 store", confirm=confirm)).get()


def _ask(text: str, *, confirm: bool) -> Callable[[], str] | None:
    if not sys.stdin.isatty():
        return None
    again: str | bool = f"{text} again" if confirm else False
    return partial(click.prompt, text, hide_input=True, confirmation_prompt=again, err=True)


# Plans


def _renamed(keys: Iterable[MasterKey], renames: Iterable[str]) -> list[MasterKey]:
    names: dict[str, str] = {}
    for rename in renames:
        alias, found, name = rename.partition("=")
        if not found or not alias or not name:
            raise ConfigError(f"--rename must be ALIAS=ID, found {rename!r}")
        names[alias.lower()] = name
    renamed = [key.renamed(names.pop(key.id, key.id)) for key in keys]
    if names:
        raise KeyNotFoundError(f"cannot rename {', '.join(sorted(names))}: the PKCS12 store has no such key")
    return renamed


def _new_keys(keystore: Keystore, found: Iterable[MasterKey]) -> list[MasterKey]:
    new = []
    for key in found:
        here = keystore.get(key.id)
        if here is None:
            new.append(key)
        elif here.key != key.key:
            raise ConfigError(
                f"cannot import {key.id}: the keystore has another master key of this id, which is never replaced; "
                "import it under another id with --rename"
            )
    return new


def _wanted(keystore: Keystore, id: str) -> MasterKey:  # noqa: A002
    key = keystore.get(id)
    if key is None:
        there = ", ".join(sorted(each.id for each in keystore.keys)) or "none"
        raise KeyNotFoundError(f"no such master key in the keystore; existing keys: {there}", key_id=id)
    return key


# Output


def _plan(*lines: str) -> None:
    # On standard error, so that standard output holds only the JSON of --json.
    for line in lines:
        click.echo(line, err=True)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("not confirmed: there is no terminal to ask; use --yes")
    click.confirm(question, abort=True, err=True)


def _remind() -> None:
    click.echo("whoever loses this file loses every table under its keys: keep a copy elsewhere, and the passphrase")


def _hint(text: str) -> None:
    click.echo(f"hint: {text}", err=True)


def _count(keys: Iterable[MasterKey]) -> str:
    number = len(list(keys))
    return f"{number} master key{'' if number == 1 else 's'}"


def _show(keys: Iterable[MasterKey]) -> None:
    rows = [(key.id, f"{len(key.key)} bytes", _created(key)) for key in keys]
    width = max((len(row[0]) for row in rows), default=0)
    for name, length, created in rows:
        click.echo(f"  {name:<{width}}  {length}  {created}")


def _created(key: MasterKey) -> str:
    return key.created.strftime("%Y-%m-%d %H:%M:%S UTC") if key.created else "creation time unknown"


def _facts(file: KeystoreFile, keys: Iterable[MasterKey], **more: Path) -> dict[str, Any]:
    return {
        "path": str(file.path),
        "keys": [
            {"id": key.id, "length": len(key.key), "created": key.created.isoformat() if key.created else None}
            for key in keys
        ],
        **{name: str(value) for name, value in more.items()},
    }
