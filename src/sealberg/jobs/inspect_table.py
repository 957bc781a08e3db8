"""What a table is: its key tree, its KEKs, its manifest lists; with `files`, also its manifests and files.

    catalog ──> metadata ──> key tree, KEKs with age and state
                   └──> manifest lists ──(files: opened with their keys)──> manifests ──> data and delete files

Each file is identified by its bytes, once. What cannot be read is a finding, or was not checked.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import SealbergError
from sealberg.jobs.codes import code_of
from sealberg.jobs.findings import Finding, KekFacts, KindFacts, NotChecked
from sealberg.jobs.inspect import Inspection, Task, entries, findings_of, key_findings, look, unchecked
from sealberg.jobs.key_tree import kek_facts, table_tree
from sealberg.jobs.runner import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.table.snapshots import Snapshot

    from sealberg.jobs.checks.table_state import TableState
    from sealberg.jobs.inspect import InspectedFile

KINDS: Final = (
    "manifest-list",
    "manifest",
    "data",
    "position-deletes",
    "equality-deletes",
    "deletion-vectors",
    "statistics",
)


def inspect_table(
    state: TableState,
    *,
    catalog: str | None = None,
    files: bool = False,
    threads: int | None = None,
    now_ms: int | None = None,
) -> Inspection:
    """A table of a catalog, or of `open_table`.

    Args:
        state: the table, from `sealberg.jobs.checks.table_state`.
        catalog: the name of the catalog.
        files: open manifest lists and manifests, and look at every file that they name.
        threads: how many files are looked at in parallel.
        now_ms: the time for which ages are computed; by default the local clock.
    """
    name = state.name
    if state.table is None:
        return _not_loaded(state, catalog)
    facts, tree, found = state.facts(), None, []
    if state.encrypted is None:
        found.append(Finding("plaintext", "error", name, "the table is not encrypted"))
    else:
        tree = table_tree(state.metadata)
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        keks = kek_facts(tree, now_ms=now_ms, master_key_id=facts.key_id, lifespan_ms=state.kek_lifespan_ms)
        facts = replace(facts, keks=keks)
        found += key_findings(name, tree)
        found += [_bad_time(name, kek) for kek in keks if kek.state in ("future", "no-timestamp")]
    walk = _Walk(state, files=files)
    looked = sorted(Threads(threads).run(look, walk.tasks()), key=lambda each: _order(each.task))
    if state.encrypted is not None:
        by_bytes = [finding for each in looked for finding in findings_of(name, each)]
        known = {finding.file for finding in by_bytes}
        found += [*by_bytes, *(finding for finding in walk.findings if finding.file not in known)]
    read = entries(looked)
    return Inspection(
        name,
        catalog,
        replace(facts, kinds=_kinds(read)),
        tree,
        _summary(state),
        read if files else (),
        tuple(found),
        (*walk.not_checked, *unchecked(name, looked)),
    )


def _not_loaded(state: TableState, catalog: str | None) -> Inspection:
    error = state.error
    assert error is not None, "a table is loaded, or there is an error"
    base = Inspection(state.name, catalog, state.facts())
    code = code_of(error)
    if code is None:
        return replace(base, not_checked=(NotChecked(state.name, "the table", str(error)),))
    return replace(base, findings=(Finding(code, "error", state.name, str(error)),))


class _Walk:
    """From the metadata of a table to its files, each once; keeps what cannot be read."""

    def __init__(self, state: TableState, *, files: bool) -> None:
        assert state.table is not None
        self._name, self._metadata, self._files = state.name, state.table.metadata, files
        sealed = state.encrypted is not None
        self._io = state.io if sealed else state.table.io
        self._storage = state.storage if sealed else state.table.io
        self._seen: set[str] = set()
        self.findings: list[Finding] = []
        self.not_checked: list[NotChecked] = []

    def tasks(self) -> Iterator[Task]:
        for file in (*self._metadata.statistics, *self._metadata.partition_statistics):
            yield from self._task(file.statistics_path, "statistics")
        for snapshot in self._metadata.snapshots:
            yield from self._task(snapshot.manifest_list, "manifest-list")
            if self._files:
                yield from self._below(snapshot)

    def _below(self, snapshot: Snapshot) -> Iterator[Task]:
        for manifest in self._read(snapshot.manifest_list, partial(snapshot.manifests, self._io)):
            if manifest.manifest_path not in self._seen:
                yield from self._task(manifest.manifest_path, "manifest")
                for each in self._read(manifest.manifest_path, partial(manifest.fetch_manifest_entry, self._io)):
                    yield from self._task(each.data_file.file_path, _kind(each.data_file))

    def _read(self, location: str, read: Callable[[], Iterable[Any]]) -> list[Any]:
        try:
            return list(read())
        except (SealbergError, OSError) as error:
            code = code_of(error)
            if code is not None:
                self.findings.append(Finding(code, "error", self._name, str(error), str(location)))
            else:
                self.not_checked.append(NotChecked(self._name, f"the files below {location!s}", str(error)))
            return []

    def _task(self, location: str, kind: str) -> Iterator[Task]:
        location = str(location)  # without the key that a location may carry
        if location not in self._seen:
            self._seen.add(location)
            yield Task(location, kind, self._storage)


def _kind(file: Any) -> str:
    from pyiceberg.manifest import DataFileContent

    if getattr(file, "is_deletion_vector", False):
        return "deletion-vectors"
    contents = {DataFileContent.DATA: "data", DataFileContent.POSITION_DELETES: "position-deletes"}
    return contents.get(file.content, "equality-deletes")


def _order(task: Task) -> tuple[int, str]:
    return KINDS.index(task.kind or ""), task.location


def _kinds(files: Iterable[InspectedFile]) -> tuple[KindFacts, ...]:
    counts: dict[str, tuple[int, int]] = {}
    for file in files:
        number, size = counts.get(file.kind or "", (0, 0))
        counts[file.kind or ""] = (number + 1, size + file.stored_length)
    return tuple(KindFacts(kind, *counts[kind]) for kind in KINDS if kind in counts)


def _bad_time(name: str, kek: KekFacts) -> Finding:
    what = "has no KEY_TIMESTAMP" if kek.state == "no-timestamp" else "has a KEY_TIMESTAMP in the future"
    return Finding("key-time", "error", name, f"KEK {kek.key_id} {what}")


def _summary(state: TableState) -> dict[str, str] | None:
    assert state.table is not None
    current = state.table.metadata.current_snapshot()
    if current is None or current.summary is None:
        return None
    wanted = ("total-records", "total-data-files", "total-delete-files", "total-files-size")
    found = current.summary.additional_properties
    return {name: str(found[name]) for name in wanted if name in found}
