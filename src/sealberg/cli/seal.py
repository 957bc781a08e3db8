"""`sealberg seal FILE --key-metadata KEYS`: any file as an AGS1 stream, which `sealberg open` opens."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from sealberg.cli.console import progress, terminable
from sealberg.cli.kms_options import kms_options, kms_properties, with_prompt
from sealberg.errors import ConfigError
from sealberg.files.seal import replacing, seal_stream
from sealberg.format.aes_gcm import KEY_LENGTHS
from sealberg.keys.file_key import DEFAULT_KEY_LENGTH, new_file_key
from sealberg.keys.key_file import clear_key, seal_key
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.client import client_from_properties
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.format.key_metadata import KeyMetadata


@click.command("seal")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--key-metadata",
    "keys",
    required=True,
    type=click.Path(dir_okay=False),
    help="Where to write the key metadata, which `sealberg open` needs: sealed under the master key of --key-id, or "
    "without one in the clear, and then whoever reads both files has the plaintext.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write; standard output if left out.")
@click.option("--key-id", metavar="ID", help="The master key of the KMS under which the key metadata are sealed.")
@kms_options
@click.option(
    "--data-key-length",
    type=click.Choice([str(length) for length in KEY_LENGTHS]),
    default=str(DEFAULT_KEY_LENGTH),
    show_default=True,
    help="The bytes of the new key.",
)
@click.option("--threads", type=click.IntRange(1), help="How many threads seal blocks.")
def seal(
    file: str,
    keys: str,
    output: str | None,
    key_id: str | None,
    catalog: str | None,
    kms_type: str | None,
    kms_impl: str | None,
    properties: tuple[str, ...],
    data_key_length: str,
    threads: int | None,
) -> None:
    """Encrypt FILE, of any kind, or standard input (-) as an AGS1 stream with a new key.

    Both files get mode 0600, appear only when they are complete, and replace no file. FILE stays.
    """
    if key_id is None and (catalog or kms_type or kms_impl or properties):
        raise click.UsageError("The options of a KMS need the id of a master key; give --key-id too.")
    if output is not None and Path(output).absolute() == Path(keys).absolute():
        raise ConfigError("the stream and its key metadata need two files; --output and --key-metadata name one")
    for target in (output, keys):
        if target is not None and os.path.lexists(target):
            raise ConfigError(f"{target} exists, and seal replaces no file; choose another name")
    if output is None and sys.stdout.isatty():
        raise ConfigError("an AGS1 stream is binary, and standard output is a terminal; use -o or a pipe")
    with terminable(), contextlib.ExitStack() as opened:
        new_key = new_file_key(int(data_key_length))
        key_content: Callable[[KeyMetadata], bytes] = clear_key
        if key_id is not None:
            given = kms_properties(catalog, kms_type, kms_impl, properties)
            key_content = opened.enter_context(_under_master_key(output or keys, key_id, int(data_key_length), given))
        standard_input = file == "-"
        plain = opened.enter_context(open(0 if standard_input else file, "rb", buffering=0, closefd=not standard_input))
        status = os.fstat(plain.fileno())
        total = status.st_size if stat.S_ISREG(status.st_mode) else None

        def seal_into(sink: BinaryIO) -> bytes:
            with progress("sealing", total) as done:
                return key_content(seal_stream(plain, sink, new_key, threads=threads, progress=done))

        if output is None:
            with replacing(keys, existing=False) as key_sink:
                key_sink.write(seal_into(sys.stdout.buffer))
                sys.stdout.buffer.flush()
        else:
            _to_files(seal_into, output, keys)


@contextlib.contextmanager
def _under_master_key(
    name: str, key_id: str, key_length: int, properties: dict[str, str]
) -> Iterator[Callable[[KeyMetadata], bytes]]:
    """What seals key metadata under a master key; the KMS is asked at once, before anything is encrypted."""
    settings = EncryptionSettings(name, key_id, key_length, kms_properties=properties)
    with with_prompt(client_from_properties(properties)) as kms, EncryptionManager(settings, kms=kms) as manager:
        ring, _ = manager.with_active_kek(Keyring())
        yield lambda key_metadata: seal_key(manager, ring, key_metadata)


def _to_files(seal_into: Callable[[BinaryIO], bytes], output: str, keys: str) -> None:
    # The key file appears first: without its stream it is useless, and a stream without its key is lost.
    written = False
    try:
        with replacing(output, existing=False) as sink:
            with replacing(keys, existing=False) as key_sink:
                key_sink.write(seal_into(sink))
            written = True
    except BaseException:
        if written:
            Path(keys).unlink(missing_ok=True)
        raise
