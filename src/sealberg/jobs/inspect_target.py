"""What a name on the command line means: a file, a folder, a glob, or a table.

    s3://lake/hr/salaries/            a folder in a store            data/*.parquet    a glob, here or in a store
    /lake/hr/m/00007.metadata.json    a file                         hr.salaries       a table of the catalog

A path that exists is a file or a folder. Other names with a dot and without a slash are tables; with `--catalog`, such
a name is a table even if a file has the same name. The properties of the catalog say how to reach a store.
Local files are found and read without PyIceberg.
"""

from __future__ import annotations

import glob
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from sealberg.errors import NothingThereError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

WILD: Final = re.compile(r"[*?\[]")
WILDCARD: Final = re.compile(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])")


@dataclass(frozen=True)
class Files:
    """Files of this machine (`io` is None) or of a store; `several` if a folder or a glob was named."""

    locations: tuple[str, ...]
    several: bool
    io: FileIO | None = field(default=None, repr=False)


@dataclass(frozen=True)
class TableName:
    """A table of a catalog."""

    name: str


def resolve(text: str, catalog: str | None = None) -> Files | TableName:
    """What the text names; ConfigError if it names nothing."""
    if (scheme := urlsplit(text).scheme.lower()) == "file":
        return _local(unquote(urlsplit(text).path), text)
    if scheme and "://" in text:
        return _in_store(text, catalog)
    is_name = "." in text.strip(".") and "/" not in text and not WILD.search(text)
    if is_name and (catalog is not None or not Path(text).exists()):
        return TableName(text)
    return _local(text, text)


def _local(path: str, text: str) -> Files:
    if Path(path).is_dir():
        below = (str(Path(root) / name) for root, _, names in os.walk(path) for name in names)
        return Files(tuple(sorted(below)), several=True)
    if Path(path).exists():
        return Files((path,), several=False)
    if WILD.search(path):
        every = glob.glob(path, recursive=True, include_hidden=True)  # noqa: PTH207 (Path.glob takes no absolute one)
        return _matching(text, sorted(each for each in every if Path(each).is_file()))
    raise NothingThereError(f"{text} does not exist, and is not the name of a table (NAMESPACE.TABLE)")


def _in_store(text: str, catalog: str | None) -> Files:
    from sealberg.catalogs.load import catalog_properties
    from sealberg.files.listing import list_files
    from sealberg.table.static_table import storage_io

    _, properties = catalog_properties(catalog)
    io = storage_io({name: value for name, value in properties.items() if isinstance(value, str)}, text)
    if wild := WILD.search(text):
        pattern = glob_pattern(text)
        listed = (each.location for each in list_files(io, text[: wild.start()].rpartition("/")[0]))
        return _matching(text, sorted(filter(pattern.fullmatch, listed)), io)
    failure: OSError | None = None
    if not text.endswith("/"):
        try:
            io.new_input(text).open().close()
        except OSError as error:  # what a store says of a folder differs; the listing tells
            failure = error
        else:
            return Files((text,), several=False, io=io)
    if files := tuple(sorted(each.location for each in list_files(io, text))):
        return Files(files, several=True, io=io)
    if failure is not None and not isinstance(failure, FileNotFoundError):
        raise failure
    raise NothingThereError(f"{text} does not exist: no file, and no folder that holds files")


def _matching(text: str, found: list[str], io: FileIO | None = None) -> Files:
    if not found:
        raise NothingThereError(f"no file matches {text}")
    return Files(tuple(found), several=True, io=io)


def glob_pattern(text: str) -> re.Pattern[str]:
    """A glob as a regular expression, as in `glob`: `*` stays in its folder, `**/` is any number of folders."""
    wild = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = WILDCARD.split(text)
    return re.compile("".join(wild.get(part) or _literal_or_set(part) for part in parts), re.DOTALL)


def _literal_or_set(part: str) -> str:
    if not WILDCARD.fullmatch(part):
        return re.escape(part)
    negated = part.startswith("[!")
    inner = part[2 if negated else 1 : -1].replace("\\", "\\\\").replace("^", "\\^").replace("[", "\\[")
    return f"[{'^' if negated else ''}{inner}]"
