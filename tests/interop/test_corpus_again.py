"""The script that makes the tables of Iceberg Java from nothing still does, and we read what it makes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from vectors.generate.java.tables_1_12 import RECIPES
from vectors.spelling import LINEAGE, canonical_row, parsed

import sealberg
from kit.programs.commands import jdk
from kit.programs.maven import bring
from kit.tables import corpus

ROOT = Path(__file__).parents[2]
MADE = ("three_keks", "equality_deletes")  # through SQL and through Iceberg's API, its clock shifted


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute on a machine that has nothing else to do
def test_tables_made_again_have_the_rows_that_java_reads(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark brings Spark and the metastore")
    jdk()
    bring(
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "org.apache.iceberg:iceberg-core:1.11.0:jar:tests"
    )
    command = [sys.executable, "-m", "vectors.generate.java", str(tmp_path), "--only", *MADE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in MADE:
        location = sorted((tmp_path / "wh/db.db" / name / "metadata").glob("*metadata.json"))[-1]
        table = sealberg.open_table(f"file://{location}", corpus.KMS, expected_key_id="keyA")
        schemas = {one["schema-id"]: one for one in json.loads(location.read_text())["schemas"]}
        for snapshot in table.metadata.snapshots:
            columns = {field["name"]: field["type"] for field in schemas[snapshot.schema_id]["fields"]}
            found = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("*", *LINEAGE)).to_arrow().to_pylist()
            lines = (tmp_path / "expected" / name / f"rows-{snapshot.snapshot_id}.jsonl").read_text().splitlines()
            assert Counter(canonical_row(row, columns) for row in found) == Counter(
                canonical_row(parsed(line), columns) for line in lines
            )
        published = corpus.TABLES[name]["snapshots"]
        assert [one["row-count"] for one in published] == [
            table.scan(snapshot_id=one.snapshot_id).count() for one in table.metadata.snapshots
        ]


def test_every_table_of_java_1_12_has_a_recipe() -> None:
    published = [name for name, entry in corpus.TABLES.items() if entry["made-by"] == "Iceberg Java 1.12.0"]
    assert published == [recipe.name for recipe in RECIPES]
