"""The check at the end of a run: a metadata.json that Iceberg Java refuses fails it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit import java_loads

pytestmark = [pytest.mark.java, pytest.mark.slow]
HERE = Path(__file__).parent
TEST = """
import pyarrow as pa, pytest, sealberg
from sealberg.metadata.table_metadata import V3TableMetadata

@pytest.mark.parametrize("kms", [{}, {"encryption.kms-type": "memory", "encryption.kms.memory.key.k": "ab" * 16}])
def test_writes(tmp_path, monkeypatch, kms):
    if %r:
        monkeypatch.setattr(V3TableMetadata, "to_json", lambda self, own=V3TableMetadata.to_json: own(self).replace(
            '"sort-orders":[', '"sort-orders":[{"order-id":0,"fields":[]},'))
    catalog = sealberg.load_catalog("c", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path), **kms)
    catalog.create_namespace("a")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    catalog.create_table("a.t", rows.schema, properties={"encryption.key-id": "k"} if kms else {}).append(rows)
    catalog.close()
"""


@pytest.mark.parametrize("spoilt", [False, True])
def test_a_run_whose_tests_write_what_java_refuses_fails(tmp_path: Path, *, spoilt: bool) -> None:
    (tmp_path / "conftest.py").write_text("from kit import java_loads\npytest_configure = java_loads.watch\n")
    (tmp_path / "test_1.py").write_text(TEST % spoilt)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", "-q", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    environment.pop(java_loads.FOLDER, None)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout
    assert done.returncode == (1 if spoilt else 0), done.stdout
    # Two commits to the plain and two to the encrypted table.
    assert f"4 forms of metadata.json, of which Iceberg Java refuses {2 if spoilt else 0}" in done.stdout, done.stdout
    assert ("Multiple entries with same key: 0=[]" in done.stdout) == spoilt, done.stdout
    assert ("test_1.py::test_writes[kms1]" in done.stdout) == spoilt, done.stdout


def test_metadata_that_differ_in_particulars_are_of_one_form(tmp_path: Path) -> None:
    kept = java_loads._Kept(tmp_path)
    for number, location in ((1700000000000, "file:///a/b"), (1800000000000, "s3://c/d")):
        kept.keep(json.dumps({"last-updated-ms": number, "location": location, "order-id": 0}, separators=(",", ":")))
    kept.keep('{"last-updated-ms":1900000000000,"location":"file:///e","order-id":1}')
    assert len(list(tmp_path.glob("*.json"))) == 2
