"""What a type checker says of programs that use sealberg: real names have types, misspelt names are errors."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CHECKERS = {
    "mypy": [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=build/mypy-programs"],
    "pyright": [sys.executable, "-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable],
}
PROGRAM = """
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

import sealberg
from sealberg.catalogs import TrustingCatalog

catalog: Catalog = sealberg.load_catalog("prod")
spark: SparkSession = sealberg.spark.session()
builder: SparkSession.Builder = sealberg.spark.configure(SparkSession.builder)
error: type[Exception] = sealberg.errors.ConfigError
if isinstance(catalog, TrustingCatalog):
    key: str | None = trusted.key_id if (trusted := catalog.trusted("hr.salaries")) else None
"""
MISSPELT = {
    "load_katalog": "sealberg.load_katalog('prod')",
    "sesion": "sealberg.spark.sesion()",
    "ConfgError": "sealberg.errors.ConfgError",
    "TrustyCatalog": "sealberg.catalogs.TrustyCatalog",
    "trusts": "sealberg.catalogs.TrustingCatalog.trusts",
}


def check(checker: str, program: Path) -> tuple[int, str]:
    done = subprocess.run([*CHECKERS[checker], str(program)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_type_checks_and_misspelt_names_do_not(checker: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert check(checker, program)[0] == 0, check(checker, program)[1]
    program.write_text("\n".join([PROGRAM, *MISSPELT.values()]))
    code, words = check(checker, program)
    assert code == 1
    first = PROGRAM.count("\n") + 2
    for number, name in enumerate(MISSPELT, first):
        assert any(f"program.py:{number}" in line and name in line for line in words.splitlines()), words
