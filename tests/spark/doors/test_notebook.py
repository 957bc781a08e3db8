"""A notebook: cells run one after the other in one kernel, which outlives its Spark sessions."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import pytest

from kit.programs.doors import Lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FIRST = """
import sealberg.spark
spark = sealberg.spark.session("prod", **conf)
spark.sql("CREATE NAMESPACE prod.hr")
spark.sql("CREATE TABLE prod.hr.t (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
spark.sql("INSERT INTO prod.hr.t VALUES (1, 'Ada'), (2, 'Bob')")
spark.table("prod.hr.t").where("id > 1").toPandas().to_dict("records")
"""

NEW_SESSION = """
other = spark.newSession()
other.conf.set("spark.sql.catalog.other", "sealberg.catalog.EncryptedCatalog")
other.sql("DELETE FROM prod.hr.t WHERE id = 1")
[row.id for row in spark.table("prod.hr.t").collect()]
"""

STOP = """
spark.stop()
spark = sealberg.spark.session("prod", **conf)
[row.name for row in spark.table("prod.hr.t").collect()]
"""

LOOKING_BACK = """
spark.sql(
    "MERGE INTO prod.hr.t t USING (SELECT 2 AS id, 'Bo' AS name UNION ALL SELECT 3, 'Cyd') s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *"
)
first = spark.table("prod.hr.t.snapshots").orderBy("committed_at").first().snapshot_id
[
    [row.name for row in spark.table("prod.hr.t").orderBy("id").collect()],
    [row.name for row in spark.sql(f"SELECT name FROM prod.hr.t VERSION AS OF {first} ORDER BY id").collect()],
]
"""

# A platform of notebooks has made the session, with the settings that an administrator gave it.
EXISTING = """
spark.stop()
from pyspark.sql import SparkSession
builder = SparkSession.builder
for name, value in admin.items():
    builder = builder.config(name, value)
given = builder.getOrCreate()
spark = sealberg.spark.configure(SparkSession.builder, "other").getOrCreate()
assert spark.sparkContext.applicationId == given.sparkContext.applicationId
sealberg.spark.install(spark)
sealberg.spark.install(spark)
spark.sql("CREATE NAMESPACE other.hr")
spark.sql("CREATE TABLE other.hr.t TBLPROPERTIES ('encryption.key-id' = 'hr') AS SELECT * FROM prod.hr.t")
[[row.name for row in spark.table(f"{name}.hr.t").orderBy("id").collect()] for name in ("prod", "other")]
"""

TAMPERED = """
from pathlib import Path
for path in Path(folder, "prod").rglob("data/*.parquet"):
    content = bytearray(path.read_bytes())
    content[100] ^= 1  # in a data page: an index in the middle is read for filters only
    path.write_bytes(content)
spark.table("prod.hr.t").collect()
"""


@contextlib.contextmanager
def kernel(folder: Path) -> Iterator[Callable[[str], str]]:
    """A kernel of Jupyter; what a cell shows: its last value, or its error."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", allow_errors=True, resources=place)

    def run(code: str) -> str:
        notebook.cells.append(nbformat.v4.new_code_cell(code))  # type: ignore[no-untyped-call]
        client.execute_cell(notebook.cells[-1], len(notebook.cells) - 1)
        shown = [one for one in notebook.cells[-1].outputs if one.output_type != "stream"]
        errors = [one.ename + ": " + one.evalue for one in shown if one.output_type == "error"]
        return "".join(errors or [one.data["text/plain"] for one in shown if one.output_type == "execute_result"])

    with client.setup_kernel():
        yield run


@pytest.mark.timeout(600)
def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    for name in [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK", "PYICEBERG"))]:
        monkeypatch.delenv(name)
    for name, value in lake.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    admin = {name: value for name, value in lake.conf.items() if name != "spark.sql.catalog.other"}
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    start = f"conf, admin, folder = {conf!r}, {admin!r}, {str(tmp_path)!r}"
    with kernel(tmp_path) as run:
        run(start)
        assert run(FIRST) == "[{'id': 2, 'name': 'Bob'}]"
        assert run(NEW_SESSION) == "[2]"
        assert run(STOP) == "['Bob']"
        assert run(LOOKING_BACK) == "[['Bo', 'Cyd'], ['Ada', 'Bob']]"
        assert run(EXISTING) == "[['Bo', 'Cyd'], ['Bo', 'Cyd']]"
        assert "FileIntegrityException" in run(TAMPERED)
