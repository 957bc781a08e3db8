"""Iceberg Java loads every metadata.json that any test writes: one that it refuses fails the run.

    pytest_configure:  java_loads.watch(config)      in make test and in make deep, whose workers share one folder
    a test writes metadata                            a copy is kept, if there is none of this form
    all workers have ended                            one JVM parses all of them, and the run fails where Java refuses

Of a form are metadata that differ only in identifiers, times, places, keys and numbers of bytes or rows. What other
programs write (Iceberg Java, a REST server, a process that a test starts) is not seen, nor what a test itself alters;
nor files of more than a megabyte, for many snapshots are no other form than a few.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from kit import no_skips
from kit.programs.commands import compile_java, jdk
from kit.programs.maven import bring

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.io import OutputFile

FOLDER: Final = "SEALBERG_TESTS_METADATA"  # a variable of the environment, which workers inherit
CHECK: Final = Path(__file__).resolve().parents[1] / "java" / "MetadataCheck.java"
ICEBERG: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
LARGE: Final = 1 << 20
MANY: Final = 500  # snapshots, of about two kilobytes each
_SUFFIXES: Final = (".metadata.json", ".metadata.json.gz")
# Identifiers, times and sizes; of texts the places, the keys and the UUIDs.
_PARTICULAR: Final = re.compile(
    r'(?<=:)-?\d{4,}\b|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|"[a-z0-9]+://?[^"]*"|"[A-Za-z0-9+/=]{24,}"|"\d+"'
)


@dataclass(frozen=True)
class Verdict:
    """How many files Java was given, and what it said to those that it refuses."""

    files: int
    refused: dict[str, str]


def watch(config: pytest.Config) -> None:
    """Collect what tests write, and check it at the end of a run on several workers."""
    is_worker = hasattr(config, "workerinput")
    if not is_worker and _is_whole(config):
        folder = tempfile.TemporaryDirectory(prefix="sealberg-metadata-", ignore_cleanup_errors=True)
        os.environ[FOLDER] = folder.name
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(lambda: os.environ.__delitem__(FOLDER))
        config.pluginmanager.register(AtTheEnd(Path(folder.name)))
    elif is_worker and FOLDER in os.environ:
        collect(Path(os.environ[FOLDER]))


def _is_whole(config: pytest.Config) -> bool:
    return bool(config.getoption("numprocesses", None)) and "not slow" not in config.option.markexpr


class AtTheEnd:
    """A plugin of pytest for the process that has started the workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not any(self._folder.iterdir()):
            return
        try:
            found = load(self._folder)
        except pytest.skip.Exception as missing:
            self._said = [f"not checked: {missing.msg}"]
            if no_skips.is_ci():
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            return
        self._said = [f"{found.files:,} forms of metadata.json, of which Iceberg Java refuses {len(found.refused)}"]
        for name, error in found.refused.items():
            self._said += [error, (self._folder / name).with_suffix(".test").read_text()]
        if found.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._said:
            terminalreporter.section("metadata.json by Iceberg Java")
            for line in self._said:
                terminalreporter.write_line(line)


def load(folder: Path) -> Verdict:
    """Let Java parse all files of the folder."""
    (jar,) = bring(ICEBERG)
    classes = compile_java(CHECK, classpath=str(jar))
    spark = Path(pytest.importorskip("pyspark", reason="PySpark brings Hadoop and SLF4J").__file__).parent / "jars"
    command = [str(jdk().java), "-XX:+UseSerialGC", "-cp", f"{classes}:{jar}:{spark}/*", "MetadataCheck", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, files = done.stdout.splitlines()
    return Verdict(int(files), dict(line.split("\t", 1) for line in lines))


# -- what tests write -------------------------------------------------------------------------------


def collect(folder: Path) -> None:
    """Keep a copy of all metadata that this process writes from now on, by any of the three ways."""
    from pyiceberg.serializers import ToOutputFile

    from sealberg.jobs.copying import copier, work_table
    from sealberg.write.staged_files import StagedFiles

    kept = _Kept(folder)

    def by_pyiceberg(metadata: Any, file: OutputFile, *arguments: Any, **named: Any) -> None:
        if len(metadata.snapshots) < MANY:
            kept.keep(metadata.model_dump_json())
        written(metadata, file, *arguments, **named)

    def staged(self: StagedFiles, location: str, content: bytes) -> None:
        if location.endswith(_SUFFIXES) and len(content) < LARGE:
            kept.keep((gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode())
        created(self, location, content)

    def of_copy(table: Any, metadata: Any, location: str) -> None:
        if len(metadata.snapshots) < MANY:
            kept.keep(metadata.to_json())
        copied(table, metadata, location)

    written: Callable[..., None] = ToOutputFile.table_metadata
    created: Callable[..., None] = StagedFiles.create
    copied: Callable[..., None] = work_table.write_metadata
    ToOutputFile.table_metadata = staticmethod(by_pyiceberg)  # type: ignore[assignment]
    StagedFiles.create = staged  # type: ignore[method-assign]
    work_table.write_metadata = of_copy
    vars(copier)["write_metadata"] = of_copy  # has imported it


class _Kept:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._forms: set[str] = set()

    def keep(self, text: str) -> None:
        form = hashlib.sha256(_PARTICULAR.sub("*", text).encode()).hexdigest()[:32]
        if form in self._forms:
            return
        self._forms.add(form)
        (self._folder / f"{form}.json").write_text(text)
        (self._folder / f"{form}.test").write_text(os.environ.get("PYTEST_CURRENT_TEST", ""))
