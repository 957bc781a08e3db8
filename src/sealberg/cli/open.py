"""`sealberg open FILE --key-metadata ...`: the plaintext of one sealed file, whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sealberg.cli.console import progress, terminable
from sealberg.cli.kms_options import kms_options, kms_properties, with_prompt
from sealberg.errors import ConfigError, UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.identify import identify
from sealberg.files.seal import replacing
from sealberg.keys.key_file import is_sealed, open_key, read_clear_key
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from sealberg.format.key_metadata import KeyMetadata


@click.command("open")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--key-metadata",
    "given",
    required=True,
    metavar="HEX|@FILE|@-",
    help="The key metadata: as hex, or in a file (raw, hex, or sealed by `sealberg seal --key-id`), or on standard "
    "input. Hex on the command line can be seen by other users of this machine.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write; standard output if left out.")
@click.option("-f", "--force", is_flag=True, help="Replace OUTPUT if it exists.")
@click.option("--key-id", metavar="ID", help="The master key of the KMS under which the key metadata are sealed.")
@kms_options
@click.option("--threads", type=click.IntRange(1), help="How many threads open blocks.")
@click.option(
    "--allow-missing-length",
    is_flag=True,
    help="Open a file whose key metadata carry no length; blocks cut off its end would go unseen.",
)
def open_command(
    file: str,
    given: str,
    output: str | None,
    key_id: str | None,
    catalog: str | None,
    kms_type: str | None,
    kms_impl: str | None,
    properties: tuple[str, ...],
    *,
    force: bool,
    threads: int | None,
    allow_missing_length: bool,
) -> None:
    """Write the plaintext of FILE, an AGS1 stream: what `sealberg seal` made, a manifest, a manifest list, an Avro or
    a Puffin file.

    Nothing is written unless all of FILE authenticates. An output file gets mode 0600.
    """
    content = _content(given)
    if is_sealed(content):
        if key_id is None:
            raise ConfigError(
                "the key metadata are sealed under a master key of a KMS; name the key that you trust with --key-id"
            )
        keys = _unsealed(file, content, key_id, kms_properties(catalog, kms_type, kms_impl, properties))
    else:
        if key_id is not None:
            raise ConfigError(f"the key metadata are not sealed under {key_id}: they are in the clear; omit --key-id")
        keys = read_clear_key(content)
    kind = identify(file).kind
    if kind == "parquet-encrypted":
        raise UnsupportedError(f"{file} is encrypted Parquet, which is read as a table and not as a stream")
    if output is not None and Path(output).exists() and not force:
        raise ConfigError(f"{output} exists; --force replaces it")
    if output is None and sys.stdout.isatty():
        raise ConfigError("the plaintext is binary, and standard output is a terminal; use -o or a pipe")
    with terminable(), Ags1Reader(file, keys, threads=threads, allow_missing_length=allow_missing_length) as reader:
        if output is None:
            _to_pipe(reader)
        else:
            _to_file(reader, output, force=force)


def _to_file(reader: Ags1Reader, output: str, *, force: bool) -> None:
    with replacing(output, existing=force) as sink, progress("opening", reader.plain_length) as done:
        for window in reader.windows():
            sink.write(window)
            done(len(window))


def _to_pipe(reader: Ags1Reader) -> None:
    # What went into a pipe cannot be taken back, so everything is authenticated once before the first byte leaves.
    with progress("checking", reader.plain_length) as done:
        for window in reader.windows():
            done(len(window))
    reader.seek(0)
    with progress("opening", reader.plain_length) as done:
        for window in reader.windows():
            sys.stdout.buffer.write(window)
            done(len(window))
    sys.stdout.buffer.flush()


def _content(given: str) -> bytes:
    if not given.startswith("@"):
        return given.encode()
    return sys.stdin.buffer.read() if given == "@-" else Path(given[1:]).read_bytes()


def _unsealed(file: str, content: bytes, key_id: str, properties: dict[str, str]) -> KeyMetadata:
    settings = EncryptionSettings(file, key_id, kms_properties=properties)
    with with_prompt(client_from_properties(properties)) as kms, EncryptionManager(settings, kms=kms) as manager:
        return open_key(manager, content)
