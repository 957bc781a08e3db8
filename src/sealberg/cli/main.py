"""`sealberg COMMAND`: finds a command when it is named, so that --help costs nothing.

An error of ours becomes one line on standard error, a hint where there is something to do, and exit
code 1 (2 for commands whose exit code 1 means that they found something, and for every command that
found nothing to work on); with --json it becomes one JSON object on standard output as well.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Final

import click

from sealberg.cli.console import safe
from sealberg.errors import (
    AccessDeniedError,
    AuthenticationError,
    KeyNotFoundError,
    KmsUnavailableError,
    MissingLengthError,
    NothingThereError,
    SealbergError,
    TrailingBytesError,
    TruncatedError,
    TrustError,
)
from sealberg.version import __version__

# name: (where it is, what it does) - the words are here so that --help imports nothing.
COMMANDS: Final = {
    "inspect": ("sealberg.cli.inspect:inspect", "Say what a file, a folder or a table is."),
    "verify": ("sealberg.cli.verify:verify", "Prove that encrypted tables are whole and sealed."),
    "rekey": ("sealberg.cli.rekey:rekey", "Give the files of a table new data keys."),
    "change-master": ("sealberg.cli.change_master:change_master", "Give a table another master key."),
    "compact": (
        "sealberg.cli.compact:compact",
        "Rewrite small files and files with deleted rows, and merge manifests.",
    ),
    "expire": ("sealberg.cli.expire:expire", "Remove old snapshots, their files and their keys."),
    "keys": ("sealberg.jobs.keys:plan", "List master keys, KEKs, their ages and what is due."),
    "rotate": ("sealberg.jobs.rotate:plan", "Give tables a fresh KEK."),
    "rewrap": ("sealberg.jobs.rewrap:plan", "Wrap KEKs with the newest version of the master key, and prove it."),
    "prune-keys": ("sealberg.jobs.prune_keys:plan", "Remove keys that nothing needs."),
    "erase": ("sealberg.cli.erase:erase", "Erase a person's rows from all of a table, and prove it."),
    "orphans": ("sealberg.cli.orphans:orphans", "Remove files that no metadata names."),
    "stats": ("sealberg.cli.stats:stats", "Count distinct values of columns, and keep the numbers encrypted."),
    "shred": ("sealberg.cli.shred:shred", "DESTROY access to a table for good."),
    "verify-record": ("sealberg.cli.verify_record:verify_record", "Check the record of an erase or a shred."),
    "encrypt": ("sealberg.cli.encrypt:encrypt", "Copy a plaintext table or folder into an encrypted table."),
    "decrypt": ("sealberg.cli.decrypt:decrypt", "Copy an encrypted table into plaintext, with a reason."),
    "open": ("sealberg.cli.open:open_command", "Write the plaintext of one sealed file."),
    "seal": ("sealberg.cli.seal:seal", "Encrypt one file of any kind."),
    "keystore": ("sealberg.cli.keystore:keystore_group", "Keep master keys in a local file."),
    "kms": ("sealberg.cli.kms:kms_group", "Try a key management service."),
    "trust": ("sealberg.cli.trust:trust", "Accept a change that another tool made to a table."),
    "spark-conf": ("sealberg.cli.spark_conf:spark_conf", "Print the options that Spark needs for encrypted tables."),
}
HINTS: Final[tuple[tuple[type[SealbergError], str], ...]] = (
    (TruncatedError, "the file was cut, or these are the key metadata of another file"),
    (TrailingBytesError, "something was appended to the file, or these are the key metadata of another file"),
    (AuthenticationError, "the bytes were altered, or these are the keys of another file"),
    (MissingLengthError, "key metadata of Iceberg Java 1.11 and later carry the length"),
    (TrustError, "`sealberg trust TABLE` shows what was changed, and accepts it if another tool of yours did it"),
    (KeyNotFoundError, "check encryption.key-id and where the KMS properties point"),
    (AccessDeniedError, "readers need to unwrap (decrypt), writers to wrap (encrypt) too"),
    (KmsUnavailableError, "nothing was changed; try again, or raise encryption.kms.total-timeout-s"),
)
# Their exit code 1 means findings, so an error that stops them has another one: 2, not checked or not done.
CHECKS: Final = (
    "inspect",
    "verify",
    "verify-record",
    "compact",
    "keys",
    "rotate",
    "rewrap",
    "prune-keys",
    "shred",
    "erase",
)
# Whose errors speak of the user's configuration, tables and servers, and not of a mistake in here.
OTHERS: Final = ("pyiceberg", "botocore", "hive_metastore", "thrift", "requests", "sqlalchemy", "strictyaml")


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found = getattr(import_module(module), name)
        if isinstance(found, click.Command):
            return found
        from sealberg.cli.operation import command

        return command(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sealberg")
def cli() -> None:
    """Encrypted Apache Iceberg tables: look at them, open them, keep their keys."""


def main(arguments: list[str] | None = None) -> None:
    """The entry point of the command."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        sys.exit(cli.main(arguments, prog_name="sealberg", standalone_mode=False) or 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("aborted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except Exception as error:
        if not isinstance(error, SealbergError | OSError) and type(error).__module__.partition(".")[0] not in OTHERS:
            raise  # a mistake of this program, and not of its user
        _report(error, as_json="--json" in arguments)
        sys.exit(2 if isinstance(error, NothingThereError) or (arguments[:1] and arguments[0] in CHECKS) else 1)


def _report(error: Exception, *, as_json: bool) -> None:
    # Line by line: a message may have several, and what it quotes from a file may try to talk to the terminal.
    click.echo("\n".join(map(safe, f"error: {error}".split("\n"))), err=True)
    hint = next((words for kind, words in HINTS if isinstance(error, kind)), None)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    if as_json:
        click.echo(json.dumps({"error": {"type": type(error).__name__, "message": str(error)}}))


if __name__ == "__main__":
    main()
