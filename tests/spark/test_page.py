"""The pages on Spark run, each in a process of its own: a session of this one must not meet it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kit.programs import pages
from kit.programs.commands import jdk

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("page", "count"), [("spark.md", 6), ("streams.md", 2)])
def test_the_examples_of_a_page_run(tmp_path: Path, page: str, count: int) -> None:
    jdk()  # or there is no Spark
    blocks = pages.python(page)
    assert len(blocks) == count
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    prod = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/prod.db",
        "warehouse": f"file://{tmp_path}/warehouse",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": "ab" * 16,
    }
    names = {name: f"PYICEBERG_CATALOG__PROD__{name.upper().replace('-', '_').replace('.', '__')}" for name in prod}
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.ui.enabled false\nspark.sql.shuffle.partitions 2\nspark.driver.memory 1g\nspark.master local[2]\n"
    )
    here = {**os.environ, "SPARK_CONF_DIR": str(tmp_path), **{names[name]: value for name, value in prod.items()}}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=here, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    magics = {path.read_bytes()[:4] for path in (tmp_path / "warehouse").rglob("*.parquet")}
    assert magics == {b"PARE"}


def test_the_demonstration_runs(tmp_path: Path) -> None:
    jdk()  # or there is no Spark
    command = [sys.executable, str(ROOT / "examples" / "spark_demo.py"), "20000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "19,981 rows now" in done.stdout, "20,000, one in a thousand deleted, one merged in"
    assert "failed authentication" in done.stdout


def test_spark_conf_prints_what_a_session_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sealberg.cli.main", "spark-conf", "--catalog", "lake"],
        capture_output=True,
        text=True,
        check=True,
    )
    jars, *conf = done.stdout.splitlines()
    assert Path(jars.removeprefix("--jars ")).exists()
    assert conf == [
        "--conf spark.sql.catalog.lake=sealberg.catalog.EncryptedCatalog",
        "--conf spark.io.encryption.enabled=true",
        "--conf spark.authenticate=true",
        "--conf spark.network.crypto.enabled=true",
        "--conf spark.network.crypto.cipher=AES/GCM/NoPadding",
        "--conf spark.network.crypto.saslFallback=false",
        "--conf spark.network.crypto.authEngineVersion=2",
    ]
