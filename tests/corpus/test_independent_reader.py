"""tables.json says enough to read the tables and to refuse the twins: a reader without our code follows it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from vectors.reader import Refused, Table
from vectors.spelling import canonical_row

from kit.tables import corpus

GROWN = {"append-only", "parquet"}
BEYOND = {"schema-evolution", "no-lengths"}  # this small reader projects nothing
UNREADABLE = {"plaintext-manifests", "lost-keys"}
SNAPSHOTS = [
    (name, snapshot["snapshot-id"]) for name, entry in corpus.TABLES.items() for snapshot in entry["snapshots"]
]


def table_of(name: str) -> Table:
    entry = corpus.TABLES[name]
    return Table(corpus.folder_of(entry), entry, corpus.MANIFEST["master-keys"])


def snapshot_of(name: str, snapshot_id: int) -> dict[str, Any]:
    return next(one for one in corpus.TABLES[name]["snapshots"] if one["snapshot-id"] == snapshot_id)


def test_it_imports_nothing_of_ours() -> None:
    code = "import sys, vectors.reader, vectors.spelling; assert not [m for m in sys.modules if 'sealberg' in m]"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=corpus.VECTORS.parent)


@pytest.mark.parametrize(
    ("name", "snapshot_id"),
    [
        one
        for one in SNAPSHOTS
        if set(corpus.TABLES[one[0]]["features"]) >= GROWN and not BEYOND & set(corpus.TABLES[one[0]]["features"])
    ],
)
def test_a_table_that_only_grew_has_the_rows_that_its_writer_read(name: str, snapshot_id: int) -> None:
    snapshot = snapshot_of(name, snapshot_id)
    columns = snapshot["columns"]
    found = Counter(canonical_row(row, columns) for row in table_of(name).rows(snapshot_id))
    assert found == Counter(canonical_row(row, columns) for row in corpus.expected(corpus.TABLES[name], snapshot))


@pytest.mark.parametrize("name", [name for name, one in corpus.TABLES.items() if not UNREADABLE & set(one["features"])])
def test_every_file_of_every_snapshot_opens(name: str) -> None:
    for snapshot in corpus.TABLES[name]["snapshots"]:
        table_of(name).check(snapshot["snapshot-id"])


@pytest.mark.parametrize("name", [name for name, one in corpus.TABLES.items() if UNREADABLE & set(one["features"])])
def test_what_java_1_11_left_without_a_key_is_refused(name: str) -> None:
    newest = corpus.TABLES[name]["snapshots"][-1]["snapshot-id"]
    with pytest.raises(Refused, match="no key metadata"):
        table_of(name).check(newest)


@pytest.mark.parametrize("name", [name for name, twin in corpus.TWINS.items() if not twin["needs"]])
def test_a_twin_is_refused_where_the_manifest_says(name: str) -> None:
    twin = corpus.TWINS[name]
    entry = corpus.TABLES[twin["table"]]
    with pytest.raises(Refused) as caught:
        Table(corpus.folder_of(entry), entry, corpus.MANIFEST["master-keys"], corpus.changed_files(twin)).check(
            entry["snapshots"][-1]["snapshot-id"]
        )
    assert caught.value.step == twin["step"]
