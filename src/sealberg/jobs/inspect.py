"""What files are, by their bytes: the job behind `sealberg inspect`. `inspect_table` does the same for tables.

    file, folder, glob    every file by its first and last bytes                    no key, no KMS
    table                 metadata, key tree, KEKs, manifest lists                  no key, no KMS
    table --files         also manifests and every file that they name              the KMS unwraps the KEKs

    finding       plaintext: a file that can be read without a key     foreign: not a file of an Iceberg table
                  malformed, missing, key-missing, key-time, catalog   as in verify
    not checked   a file or a KMS that could not be reached

inspect tells what something is. It authenticates nothing beyond the metadata that it reads: verify does.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sealberg.errors import SealbergError
from sealberg.files.identify import Finding as Identified
from sealberg.files.identify import identify
from sealberg.jobs.findings import Finding, KekFacts, NotChecked, TableFacts
from sealberg.jobs.job import FINDINGS, FINE, NOT_CHECKED
from sealberg.jobs.key_tree import kek_facts
from sealberg.jobs.runner import Threads
from sealberg.keys.keyring import KEK_LIFESPAN_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.io import FileIO

    from sealberg.jobs.inspect_target import Files
    from sealberg.keys.key_tree import KeyTree

PLAINTEXT: Final = ("parquet", "avro", "puffin", "orc", "json", "csv", "text")
FOREIGN: Final = ("unknown", "gzip")
CRC: Final = "63 72 63 00"  # how the checksum files of Hadoop begin


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """A file by its bytes.

    Attributes:
        kind: as in `KindFacts`; None for files of a folder or a glob, of which no metadata were read.
        form: the format by the bytes of the file: `ags1`, `parquet-encrypted`, `parquet`, `metadata` ...
    """

    location: str
    kind: str | None
    form: str
    encrypted: bool
    stored_length: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        tree: the key tree of the table.
        summary: of the current snapshot, as its writer counted: rows, files, bytes.
    """

    target: str
    catalog: str | None = None
    table: TableFacts | None = None
    tree: KeyTree | None = None
    summary: dict[str, str] | None = None
    files: tuple[InspectedFile, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()

    @property
    def exit_code(self) -> int:
        return NOT_CHECKED if self.not_checked else FINDINGS if self.findings else FINE

    def to_json(self) -> dict[str, Any]:
        """JSON values; times are in milliseconds, as in Iceberg."""
        return {
            "target": self.target,
            "catalog": self.catalog,
            "exit_code": self.exit_code,
            "table": None if self.table is None else asdict(self.table),
            "key_tree": None if self.tree is None else asdict(self.tree),
            "summary": self.summary,
            "files": [asdict(file) for file in self.files],
            "findings": [asdict(finding) for finding in self.findings],
            "not_checked": [asdict(each) for each in self.not_checked],
        }


class Task(NamedTuple):
    """A file to look at; `io` is None for files of this machine."""

    location: str
    kind: str | None
    io: FileIO | None


class Looked(NamedTuple):
    """A task and what it found: one of the two is None."""

    task: Task
    found: Identified | None
    error: Exception | None


def inspect_files(target: str, files: Files, *, threads: int | None = None) -> Inspection:
    """Every file of a folder or a glob."""
    tasks = [Task(location, None, files.io) for location in files.locations]
    looked = sorted(Threads(threads).run(look, tasks), key=lambda each: each.task.location)
    return Inspection(
        target,
        files=entries(looked),
        findings=tuple(finding for each in looked for finding in findings_of(target, each)),
        not_checked=unchecked(target, looked),
    )


def look(task: Task) -> Looked:
    """Identify one file; an error is part of the answer."""
    try:
        return Looked(task, identify_in(task.io, task.location), None)
    except (SealbergError, OSError) as error:
        return Looked(task, None, error)


def identify_in(io: FileIO | None, location: str) -> Identified:
    """Identify a file of this machine, or of a store."""
    if io is None:
        return identify(location)
    from sealberg.files.file_io import naming

    with naming(location), io.new_input(location).open() as stream:
        return identify(stream)


def entries(looked: Iterable[Looked]) -> tuple[InspectedFile, ...]:
    """The files that could be read."""
    return tuple(
        InspectedFile(task.location, task.kind, found.kind, found.encrypted, found.stored_length)
        for task, found, _ in looked
        if found is not None
    )


def unchecked(name: str, looked: Iterable[Looked]) -> tuple[NotChecked, ...]:
    """The files that could not be read, and why."""
    return tuple(
        NotChecked(name, task.location, str(error))
        for task, _, error in looked
        if error is not None and not isinstance(error, FileNotFoundError)
    )


def findings_of(name: str, looked: Looked) -> Iterator[Finding]:
    """What is wrong with a file of a folder or a table."""
    task, found, error = looked
    if isinstance(error, FileNotFoundError):
        yield Finding("missing", "error", name, "the file does not exist", task.location)
    if found is None or _of_hadoop(task.location, found):
        return
    if found.kind == "age":
        yield Finding("foreign", "error", name, f"{found.summary}, which belongs elsewhere", task.location)
    yield from file_findings(name, task.location, found)


def file_findings(name: str, location: str, found: Identified) -> Iterator[Finding]:
    """What is wrong with a file, as far as its bytes tell."""
    if found.kind in FOREIGN:
        yield Finding("foreign", "error", name, f"{found.summary}: {found.problem}", location)
    elif found.problem is not None:
        yield Finding("malformed", "error", name, f"{found.summary}, but {found.problem}", location)
    elif found.kind in PLAINTEXT:
        yield Finding("plaintext", "error", name, f"{found.summary}: readable without a key", location)
    elif found.kind == "metadata" and found.key_tree is None:
        yield Finding("plaintext", "error", name, "the table is not encrypted", location)
    elif found.key_tree is not None:
        yield from key_findings(name, found.key_tree, location)
        for path in found.facts["plaintext_statistics"]:
            yield Finding("plaintext", "error", name, "a statistics file without a key", str(path))


def key_findings(name: str, tree: KeyTree, location: str | None = None) -> Iterator[Finding]:
    """The snapshots and entries that have no path to a master key."""
    for problem in tree.problems:
        yield Finding("plaintext" if "not encrypted" in problem else "key-missing", "error", name, problem, location)


def metadata_keks(found: Identified, *, now_ms: int, lifespan_ms: int = KEK_LIFESPAN_MS) -> tuple[KekFacts, ...]:
    """The KEKs of a metadata file."""
    if found.key_tree is None:
        return ()
    return kek_facts(found.key_tree, now_ms=now_ms, master_key_id=found.facts["key_id"], lifespan_ms=lifespan_ms)


def _of_hadoop(location: str, found: Identified) -> bool:
    """Checksum files and version-hint.text hold no data of a table."""
    name = location.rpartition("/")[2]
    is_checksum = name.startswith(".") and name.endswith(".crc") and CRC in (found.problem or "")
    return is_checksum or name == "version-hint.text"
