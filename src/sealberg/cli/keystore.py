"""`sealberg keystore`: make and keep the file that holds master keys.

    create    a new file            list      ids, sizes, creation times; never keys
    add       a new random key      passwd    a new passphrase
    import    keys of a PKCS12 store of Java's        export    a PKCS12 store for Java

Where something is replaced, the plan is shown and confirmed. Secrets come from a file, the
environment or a prompt, never from an argument: arguments are seen by everybody on the machine.
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
passphrase_file_option = click.option("--passphrase-file", type=_FILE, help="A file with the passphrase in one line.")
passphrase_env_option = click.option(
    "--passphrase-env", default=DEFAULT_ENV, show_default=True, metavar="NAME", help="The variable with the passphrase."
)
password_file_option = click.option(
    "--password-file", type=_FILE, help=f"A file with the store's password; else the variable {JAVA_ENV}, or a prompt."
)
length_option = click.option(
    "--length", type=_LENGTHS, default=str(DEFAULT_LENGTH), show_default=True, help="Bytes of the new key."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do it without asking.")


def keystore_options(command: Callable[..., None]) -> Callable[..., None]:
    """Which keystore, and where its passphrase comes from."""
    for option in (json_option, passphrase_env_option, passphrase_file_option, path_option):
        command = option(command)
    return command


@click.group("keystore")
def keystore_group() -> None:
    """Keep master keys in a local file under a passphrase."""


@keystore_group.command()
@click.option("--key", "ids", multiple=True, metavar="ID", help="Also make this master key; may be repeated.")
@length_option
@click.option(
    "--work-factor",
    type=click.IntRange(10, age.MAX_WORK_FACTOR),
    default=age.WORK_FACTOR,
    show_default=True,
    help="log2 of scrypt's N: one more makes opening, and guessing, twice as slow.",
)
@click.option(
    "--if-not-exists", is_flag=True, help="Where the keystore exists, keep it and make only the keys that it lacks."
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
    """Make a new keystore."""
    file = _file(path)
    if if_not_exists and file.path.exists():
        _add_missing(file, _passphrase(passphrase_file, passphrase_env), ids, int(length), as_json=as_json)
        return
    if file.path.exists():
        raise ConfigError(f"{file.path} exists already, and is not overwritten")  # before a passphrase is asked for
    now = datetime.now(UTC)
    keystore = Keystore(tuple(MasterKey.generate(each, now, int(length)) for each in ids))
    passphrase = _passphrase(passphrase_file, passphrase_env, "New passphrase", confirm=True)
    file.create(keystore, passphrase, work_factor=work_factor)
    if as_json:
        print_json(_facts(file, keystore.keys))
        return
    click.echo(f"created {file.path}, for you alone (mode 0600)")
    _show(keystore.keys)
    _remind()
    if not ids:
        _hint("sealberg keystore add ID makes a master key, for tables with encryption.key-id=ID")


def _add_missing(file: KeystoreFile, passphrase: str, ids: Iterable[str], length: int, *, as_json: bool) -> None:
    known = {key.id for key in file.read(passphrase).keys}
    now = datetime.now(UTC)
    missing = [MasterKey.generate(each, now, length) for each in ids if each not in known]
    if missing:
        file.add(passphrase, missing)
    if as_json:
        print_json(_facts(file, missing))
        return
    click.echo(f"{file.path} exists already, and is kept")
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
    """Make the master key ID."""
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
    """Show ids, sizes and creation times, never a key."""
    file = _file(path)
    keystore = file.read(_passphrase(passphrase_file, passphrase_env))
    if as_json:
        print_json(_facts(file, keystore.keys))
        return
    click.echo(f"{file.path}, {_count(keystore.keys)}")
    _show(keystore.keys)
    if not keystore.keys:
        _hint("sealberg keystore add ID makes a master key")


@keystore_group.command()
@click.option("--new-passphrase-file", type=_FILE, help="A file with the new passphrase in one line.")
@click.option("--new-passphrase-env", metavar="NAME", help="The variable with the new passphrase.")
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
        f"{_count(keystore.keys)} of {file.path} will be under the new passphrase",
        f"the previous file stays at {file.previous}, under the old one",
    )
    _confirm("Change the passphrase?", yes=yes)
    keystore = file.change_passphrase(old, new)
    if as_json:
        print_json(_facts(file, keystore.keys, previous=file.previous))
        return
    click.echo(f"changed the passphrase of {file.path}")
    _hint(f"the old passphrase still opens {file.previous} and every older copy: delete those that you do not need")


@keystore_group.command("import")
@click.argument("store", type=_FILE)
@password_file_option
@click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="ALIAS=ID",
    help="Take the key ALIAS in as ID, for tables whose encryption.key-id is not in lower case.",
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
    """Take in the AES keys of a PKCS12 STORE, as Java's KeyStoreKmsClient and keytool make it.

    Java keeps aliases in lower case. A key that is here already, byte for byte, is left alone; an id that
    is here with another key is refused, because its tables would be lost.
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
    if store.resolve() in {file.path.resolve(), file.previous}:
        raise ConfigError(f"{store} is the keystore itself, expected another file")
    keystore = file.read(_passphrase(passphrase_file, passphrase_env))
    keys = [_wanted(keystore, each) for each in ids] or list(keystore.keys)
    content = pkcs12.seal(keys, _password(password_file, confirm=True))
    kept: dict[str, Path] = {}
    if store.exists():
        _plan(f"{store} exists; it will be replaced, and stays as {private_file.previous(store)}")
        _confirm("Replace it?", yes=yes)
        kept["previous"] = private_file.replace(store, content)
    else:
        private_file.create(store, content)
    if as_json:
        print_json({**_facts(file, keys, **kept), "store": str(store)})
        return
    click.echo(f"wrote {_count(keys)} to {store}, for you alone (mode 0600)")
    _show(keys)
    _hint(f"in Java: {JAVA_PATH}={store.absolute()}, its password in the variable {JAVA_ENV}")
    if any(key.id != key.id.lower() for key in keys):
        _hint("Java compares key ids in lower case")


# Where secrets come from


def _file(path: Path | None) -> KeystoreFile:
    return KeystoreFile(path.expanduser().absolute() if path else default_path())


def _passphrase(file: Path | None, env: str, words: str = "Passphrase", *, confirm: bool = False) -> str:
    missing = (
        f"no passphrase: expected --passphrase-file FILE, the environment variable {DEFAULT_ENV} "
        "(or the one that --passphrase-env names), or a terminal to ask at"
    )
    return PassphraseSource(file, env, missing, _ask(words, confirm=confirm)).get()


def _new_passphrase(file: Path | None, env: str | None) -> str:
    missing = (
        "no new passphrase: expected --new-passphrase-file FILE, --new-passphrase-env NAME, or a terminal to ask at"
    )
    ask = _ask("New passphrase", confirm=True)
    if env is not None or file is not None:
        return PassphraseSource(file, env or DEFAULT_ENV, missing).get()
    if ask is None:
        raise ConfigError(missing)
    return ask()


def _password(file: Path | None, *, confirm: bool = False) -> str:
    missing = f"no password for the PKCS12 store: expected --password-file FILE, {JAVA_ENV}, or a terminal to ask at"
    return PassphraseSource(file, JAVA_ENV, missing, _ask("Password of the PKCS12 store", confirm=confirm)).get()


def _ask(words: str, *, confirm: bool) -> Callable[[], str] | None:
    if not sys.stdin.isatty():
        return None
    again: str | bool = f"{words} again" if confirm else False
    return partial(click.prompt, words, hide_input=True, confirmation_prompt=again, err=True)


# Plans


def _renamed(keys: Iterable[MasterKey], renames: Iterable[str]) -> list[MasterKey]:
    names: dict[str, str] = {}
    for rename in renames:
        alias, found, name = rename.partition("=")
        if not found or not alias or not name:
            raise ConfigError(f"--rename is ALIAS=ID, found {rename!r}")
        names[alias.lower()] = name
    renamed = [key.renamed(names.pop(key.id, key.id)) for key in keys]
    if names:
        raise KeyNotFoundError(f"nothing to rename: the PKCS12 store has no key {', '.join(sorted(names))}")
    return renamed


def _new_keys(keystore: Keystore, found: Iterable[MasterKey]) -> list[MasterKey]:
    new = []
    for key in found:
        here = keystore.get(key.id)
        if here is None:
            new.append(key)
        elif here.key != key.key:
            raise ConfigError(f"the keystore has another master key {key.id}, which is never replaced; rename one")
    return new


def _wanted(keystore: Keystore, id: str) -> MasterKey:  # noqa: A002
    key = keystore.get(id)
    if key is None:
        there = ", ".join(sorted(each.id for each in keystore.keys)) or "none"
        raise KeyNotFoundError(f"no such master key in the keystore; existing keys: {there}", key_id=id)
    return key


# Words


def _plan(*lines: str) -> None:
    # On standard error, so that --json stays clean.
    for line in lines:
        click.echo(line, err=True)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError("not confirmed: there is no terminal to ask at, expected --yes")
    click.confirm(question, abort=True, err=True)


def _remind() -> None:
    click.echo("losing this file loses every table under its keys: keep a copy elsewhere, and remember the passphrase")


def _hint(words: str) -> None:
    click.echo(f"hint: {words}", err=True)


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
