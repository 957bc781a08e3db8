"""`--packages`: the jar from a Maven repository, and a Python with sealberg or a sentence that says what to install."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest
from jvm import jar, repository

from kit.programs.doors import Lake, Refused, java_job, spark_sql
from kit.programs.visit import visit

if TYPE_CHECKING:
    from pathlib import Path


def test_the_repository_has_the_jar_its_sources_and_a_pom_with_checksums(tmp_path: Path) -> None:
    folder = repository.fill(tmp_path, jar.ensure())
    group, artifact, version = repository.coordinates()
    assert folder == tmp_path.joinpath(*group.split("."), artifact, version)
    files = {path.name: path for path in folder.iterdir()}
    names = [f"{artifact}-{version}{ending}" for ending in (".jar", "-sources.jar", ".pom")]
    assert set(files) == {f"{name}{end}" for name in names for end in ("", ".md5", ".sha1", ".sha256", ".sha512")}
    for name in names:
        for checksum in repository.CHECKSUMS:
            found = hashlib.new(checksum, files[name].read_bytes()).hexdigest()
            assert files[f"{name}.{checksum}"].read_text() == found
    assert jar.jar_hash(files[names[0]]) == jar.source_hash()
    with zipfile.ZipFile(files[names[0]]) as compiled, zipfile.ZipFile(files[names[1]]) as sources:
        classes = {
            name.removesuffix(".class") for name in compiled.namelist() if "$" not in name and "META" not in name
        }
        assert classes <= {name.removesuffix(".java") for name in sources.namelist()}
        assert sources.read("sealberg/catalog/EncryptedCatalog.java").startswith(b"package sealberg.catalog;")
    before = {name: path.read_bytes() for name, path in files.items()}
    repository.fill(tmp_path, jar.ensure())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def with_packages(lake: Lake, folder: Path) -> list[str]:
    """Options of spark-submit, on an empty Ivy cache; nothing else is asked than the repository of the test."""
    repository.fill(folder / "maven", jar.ensure())
    del lake.conf["spark.jars"]
    lake.conf["spark.jars.ivy"] = f"{folder}/ivy"
    lake.environment["DEFAULT_ARTIFACT_REPOSITORY"] = f"file://{folder}/empty/"  # in the place of Maven's own
    return ["--packages", str(repository.coordinates()), "--repositories", f"file://{folder}/maven"]


def test_spark_sql_finds_the_jar_by_packages(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    with spark_sql(lake, *with_packages(lake, tmp_path)) as shell:
        visit(shell, lake)
    assert list((tmp_path / "ivy").rglob("*sealberg-spark*.jar"))


def test_a_python_without_sealberg_is_told_what_to_install(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "plain"], check=True)
    lake = Lake.create(tmp_path)
    lake.environment["PYSPARK_PYTHON"] = plain = f"{tmp_path}/plain/bin/python"
    with (
        java_job(lake, *with_packages(lake, tmp_path)) as door,
        pytest.raises(Refused, match=rf"{plain}, has no sealberg\. Run `{plain} -m pip install 'sealberg\[spark\]=="),
    ):
        door.run("SHOW NAMESPACES IN prod")
