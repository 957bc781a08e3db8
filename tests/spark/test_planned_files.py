"""The messages of a plan, made from columns, are those that are made file by file."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.expressions import AlwaysTrue

from kit.tables import corpus
from sealberg.errors import PlaintextFileError
from sealberg.metadata.packed_column import NONE_VALID, PackedBytes
from sealberg.scan.planner import Planner
from sealberg.spark.driver.planned_files import FileMessages
from sealberg.spark.protocol.scans import PlannedFile, ScanPlan
from sealberg.spark.worker.payload import FilePayload
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from sealberg.scan.planner import FilePlan

TABLES = [name for name in corpus.TABLES if isinstance(corpus.opened(name), EncryptedTable)]


def opened(name: str) -> tuple[EncryptedTable, FilePlan]:
    table: Any = corpus.opened(name)
    snapshot = table.metadata.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    return table, Planner(table.metadata, table.io, table.schema(), AlwaysTrue()).file_plan(manifests)


def shown(file: PlannedFile) -> dict[str, Any]:
    """A message with its payload unpickled, whose delete files have no order."""
    found = {name: getattr(file, name) for name in (field.name for field in fields(PlannedFile))}
    if file.worker_payload is not None:
        payload = FilePayload.unpickled(file.worker_payload)
        deletes = sorted(str(delete.file_path) for delete in payload.deletes)
        found["worker_payload"] = (payload.file, payload.file._data, deletes, payload.sequence_number)
    return found


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_messages_from_columns_are_those_of_files(name: str, hard: bool) -> None:
    table, plan = opened(name)
    messages = FileMessages.of(table, hard=hard)
    try:
        expected = messages.files(plan.tasks())
    except Exception as error:
        with pytest.raises(type(error)):
            messages.planned(plan)
        return
    found = messages.planned(plan)
    assert list(map(shown, found)) == list(map(shown, expected))
    assert len(found) == len(plan)
    if not hard and all(file.worker_payload is None for file in expected):
        plans: Any = (found, expected)
        by_columns, by_files = (ScanPlan("python", files).to_json() for files in plans)
        assert json.dumps(by_columns) == json.dumps(by_files)


def test_a_file_without_a_key_is_refused_by_name() -> None:
    table, plan = opened("basic128")
    (part, *_) = plan.parts
    bare = part.columns.files(part.rows)
    assert all(file.key_metadata for file in bare)
    without = replace(part.columns, key_metadata=PackedBytes(len(part.columns), NONE_VALID, 0))
    changed = replace(plan, parts=[replace(part, columns=without)])
    with pytest.raises(PlaintextFileError, match=f"{bare[0].file_path!s}: a file of an encrypted table without a key"):
        FileMessages.of(table, hard=False).planned(changed)
