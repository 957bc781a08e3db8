"""`sealberg open FILE --key-metadata ...`: the plaintext of one sealed file, whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sealberg.cli.console import progress
from sealberg.errors import ConfigError, UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.identify import identify
from sealberg.files.seal import replacing
from sealberg.format.key_metadata import KeyMetadata


@click.command("open")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--key-metadata",
    "given",
    required=True,
    metavar="HEX|@FILE|@-",
    help="The key metadata: as hex, or in a file (raw or hex), or on standard input. "
    "Hex on the command line can be seen by other users of this machine.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Where to write; standard output if left out.")
@click.option("-f", "--force", is_flag=True, help="Replace OUTPUT if it exists.")
@click.option("--threads", type=click.IntRange(1), help="How many threads open blocks.")
@click.option(
    "--allow-missing-length",
    is_flag=True,
    help="Open a file whose key metadata carry no length; blocks cut off its end would go unseen.",
)
def open_command(
    file: str, given: str, output: str | None, *, force: bool, threads: int | None, allow_missing_length: bool
) -> None:
    """Write the plaintext of FILE, an AGS1 stream: a manifest, a manifest list, an Avro or a Puffin file.

    Nothing is written unless all of FILE authenticates. An output file gets mode 0600.
    """
    keys = _key_metadata(given)
    kind = identify(file).kind
    if kind == "parquet-encrypted":
        raise UnsupportedError(f"{file} is encrypted Parquet, which is read as a table and not as a stream")
    if output is not None and Path(output).exists() and not force:
        raise ConfigError(f"{output} exists; --force replaces it")
    if output is None and sys.stdout.isatty():
        raise ConfigError("the plaintext is binary, and standard output is a terminal; use -o or a pipe")
    with Ags1Reader(file, keys, threads=threads, allow_missing_length=allow_missing_length) as reader:
        if output is None:
            _to_pipe(reader)
        else:
            _to_file(reader, output)


def _to_file(reader: Ags1Reader, output: str) -> None:
    with replacing(output) as sink, progress("opening", reader.plain_length) as done:
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


def _key_metadata(given: str) -> KeyMetadata:
    if not given.startswith("@"):
        return KeyMetadata.decode(_from_hex(given))
    raw = sys.stdin.buffer.read() if given == "@-" else Path(given[1:]).read_bytes()
    # A blob begins with byte 1, and hex with a digit, so the two cannot be confused.
    return KeyMetadata.decode(raw if raw[:1] == b"\x01" else _from_hex(raw.decode("ascii", "replace")))


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.strip().removeprefix("0x"))
    except ValueError:
        # Without the text: it is a key, or was meant to be one.
        raise ConfigError("the key metadata are not hexadecimal") from None
