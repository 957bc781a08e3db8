"""The cells of the matrix of killed jobs: a job, a catalog, a writer beside the job, and what must hold afterwards.

    Cell("rekey", "postgresql", properties)
    prepare(cell)            a table of a few files, `db.t`; gives the Writer with its model, a dictionary
    work(cell, runner)       the job
    writer.step()            appends rows and deletes one, whatever the job does meanwhile
    violations(cell, ...)    what is wrong when the job has been run again

Every cell has a folder, a database and master keys whose names hold the name of the cell, so that an operation of a
process that runs all cells at once can be counted for its own cell.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from sqlalchemy.exc import OperationalError

import sealberg
from sealberg.errors import SealbergError
from sealberg.jobs import change_master, compact, decrypt, encrypt, orphans, rekey
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sealberg.jobs.runner import Runner

JOBS: Final = ("encrypt", "decrypt", "rekey", "change-master", "compact")
KINDS: Final = ("sqlite", "postgresql")
TABLE, COPY = "db.t", "db.copy"
SCHEMA: Final = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
FILES, ROWS_PER_FILE = 3, 10
PATIENCE_S: Final = 90.0
BESIDE_A_JOB: Final = (CommitFailedException, ValidationException, NoSuchTableError, OperationalError, SealbergError)


@dataclass(frozen=True)
class Cell:
    """One job on one catalog."""

    job: str
    kind: str
    properties: dict[str, str] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.job}-{self.kind}"

    @property
    def key(self) -> str:
        return f"old-{self.name}"

    @property
    def new_key(self) -> str:
        return f"new-{self.name}"

    def open(self) -> Any:
        return sealberg.load_catalog("chaos", **self.properties)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def new_cell(job: str, kind: str, uri: str, folder: Path) -> Cell:
    name = f"{job}-{kind}"
    keys = {f"encryption.kms.memory.key.{age}-{name}": digits * 16 for age, digits in (("old", "ab"), ("new", "cd"))}
    place = {"type": "sql", "uri": uri, "warehouse": f"file://{folder}/{name}/wh"}
    return Cell(job, kind, {**place, "encryption.kms-type": "memory", **keys})


# -- the table and the job --------------------------------------------------------------------------


def rows(ids: Iterable[int]) -> pa.Table:
    ids = list(ids)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {each}" for each in ids]})


def prepare(cell: Cell) -> Writer:
    """A plaintext table for encrypt, an encrypted one with a deletion vector for all others."""
    sealed = {"encryption.key-id": cell.key, "write.delete.mode": "merge-on-read"}
    properties = {"format-version": "2"} if cell.job == "encrypt" else sealed
    writer = Writer(cell)
    with cell.open() as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table(TABLE, SCHEMA, properties=properties)
        for number in range(FILES):
            ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
            table.append(rows(ids))
            writer.model |= {each: f"row {each}" for each in ids}
        table.delete("id = 4")
        del writer.model[4]
        writer.remember(table)
        if cell.job != "encrypt":
            writer.old_keys = file_keys(table)
    return writer


def work(cell: Cell, runner: Runner) -> int:
    with cell.open() as catalog:
        return _planned(cell, catalog).execute(runner=runner).exit_code  # type: ignore[no-any-return]


def _planned(cell: Cell, catalog: Any) -> Any:
    if cell.job == "encrypt":
        return encrypt.plan(TABLE, COPY, key_id=cell.key, catalog=catalog, history=True, swap=True)
    if cell.job == "decrypt":
        return decrypt.plan(TABLE, COPY, reason="a test", catalog=catalog)
    if cell.job == "rekey":
        return rekey.plan(TABLE, catalog=catalog, batch_files=2, erase=True)
    if cell.job == "change-master":
        return change_master.plan(TABLE, cell.new_key, catalog=catalog, history=True, drop_old=True)
    options = {"partial-progress.enabled": "true", "min-input-files": "2"}
    return compact.plan(TABLE, catalog=catalog, options=options)


# -- the second writer ------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes to the table under its name, and knows which rows must be there.

    Attributes:
        model: the names of the rows by id.
        history: the model after each commit of this writer, by snapshot.
        old_keys: the keys of the files before the job.
    """

    cell: Cell
    model: dict[int, str] = field(default_factory=dict)
    history: dict[int, dict[int, str]] = field(default_factory=dict)
    old_keys: set[bytes] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=count)

    def step(self) -> None:
        number = next(self._numbers)
        fresh = range(1000 + 10 * number, 1003 + 10 * number)
        gone = sorted(self.model)[7 * number % len(self.model)]
        self._commit(lambda table: table.append(rows(fresh)), {**self.model, **{each: f"row {each}" for each in fresh}})
        self._commit(
            lambda table: table.delete(f"id = {gone}"),
            {each: name for each, name in self.model.items() if each != gone},
        )

    def _commit(self, act: Callable[[Any], None], after: dict[int, str]) -> None:
        """Until it is done: the job may hold a lock, exchange names, or commit first."""
        before, deadline = self.model, time.monotonic() + PATIENCE_S
        while True:
            try:
                with warnings.catch_warnings(), self.cell.open() as catalog:
                    warnings.simplefilter("ignore")
                    table = catalog.load_table(TABLE)
                    found = content(table)
                    assert found in (before, after), f"rows beside the writer: {difference(found, before)}"
                    if found == before:
                        act(table)
                    self.model = after
                    self.remember(table)
                    return
            except BESIDE_A_JOB:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def remember(self, table: Any) -> None:
        self.history[table.metadata.current_snapshot_id] = dict(self.model)


class Meddling:
    """A runner beside which the writer commits once, after the first result."""

    def __init__(self, runner: Runner, writer: Writer) -> None:
        self._runner, self._writer = runner, writer
        self._done = False

    def run(self, work: Callable[[Any], Any], tasks: Iterable[Any]) -> Iterator[Any]:
        for result in self._runner.run(work, tasks):
            if not self._done:
                self._done = True
                self._writer.step()
            yield result


# -- what must hold ---------------------------------------------------------------------------------


def content(table: Any) -> dict[int, str]:
    found = table.scan().to_arrow().to_pylist()
    made = {row["id"]: row["name"] for row in found}
    assert len(made) == len(found), "a row is there twice"
    return made


def lineage(cell: Cell) -> dict[int, int]:
    """The row id of each row, where the table has row ids."""
    if cell.job == "encrypt":
        return {}
    with cell.open() as catalog:
        found = catalog.load_table(TABLE).scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
    return {row["id"]: row["_row_id"] for row in found}


def difference(found: dict[int, str], expected: dict[int, str]) -> str:
    return f"missing {sorted(expected.keys() - found.keys())}, more {sorted(found.keys() - expected.keys())}"


def file_keys(table: Any) -> set[bytes]:
    return {bytes(task.file.key_metadata) for task in table.scan().plan_files() if task.file.key_metadata is not None}


def opens(cell: Cell, writer: Writer) -> list[str]:
    """What is wrong right after a kill: the table must open with the rows of the model."""
    with cell.open() as catalog:
        found = content(catalog.load_table(TABLE))
    return [] if found == writer.model else [f"after the kill: {difference(found, writer.model)}"]


def violations(cell: Cell, writer: Writer, row_ids: dict[int, int]) -> tuple[list[str], list[str]]:
    """What is wrong when the job has been run again, and the codes of what killed runs left for `orphans`."""
    wrong: list[str] = []
    with cell.open() as catalog:
        table = catalog.load_table(TABLE)
        if (found := content(table)) != writer.model:
            wrong.append(f"rows: {difference(found, writer.model)}")
        names = {name for _, name in catalog.list_tables("db")}
        if names != ({"t", "copy"} if cell.job in ("encrypt", "decrypt") else {"t"}):
            wrong.append(f"tables: {sorted(names)}")
        wrong += _outcome(cell, writer, catalog, table)
    now = lineage(cell)
    moved = [each for each, row_id in row_ids.items() if now.get(each, row_id) != row_id]
    wrong += [f"other row ids: {moved}"] if moved else []
    left = _audit(cell)
    if left:
        with cell.open() as catalog:
            orphans.plan(catalog.load_table(TABLE), older_than=timedelta(0), allow_recent=True).execute()
        wrong += [f"remains: {each}" for each in _audit(cell)]
    return wrong, left


def _outcome(cell: Cell, writer: Writer, catalog: Any, table: Any) -> list[str]:
    if cell.job == "encrypt":
        copy = catalog.load_table(COPY)
        swapped = table.metadata.properties.get("encryption.key-id") == cell.key
        return [] if swapped and "encryption.key-id" not in copy.metadata.properties else ["names not exchanged"]
    if cell.job == "decrypt":
        copy = catalog.load_table(COPY)
        expected = writer.history[copy.metadata.current_snapshot_id]
        found = content(copy)
        wrong = [] if found == expected else [f"copy: {difference(found, expected)}"]
        return wrong + [f"left beside the copy: {path}" for path in unnamed(copy)]
    if cell.job == "rekey":
        return ["a file has its old key"] if file_keys(table) & writer.old_keys else []
    if cell.job == "change-master":
        return [] if table.metadata.properties["encryption.key-id"] == cell.new_key else ["the old master key"]
    return []


def _audit(cell: Cell) -> list[str]:
    result = verify(TABLE, catalog=cell.open(), level="full", orphan_age=timedelta(0)).execute()
    return [f"{each.code} {each.file}" for each in result.findings] + [str(each) for each in result.not_checked]


def unnamed(table: Any) -> set[str]:
    """Files below the location of a table that its metadata do not name."""
    named = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            named.add(str(manifest.manifest_path))
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            named |= {str(entry.data_file.file_path) for entry in entries}
    root = Path(table.metadata.location.removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file()} - {one.removeprefix("file://") for one in named}
