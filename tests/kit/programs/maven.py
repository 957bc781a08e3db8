"""Java libraries by their Maven coordinates, downloaded once and kept for later runs.

bring("org.apache.iceberg:iceberg-core:1.11.0:jar:tests")    single files
bring_all(pom)                                               a folder with all dependencies of a pom.xml

The test is skipped if Maven is missing or cannot download the libraries.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from shutil import rmtree

import pytest

from kit.programs.commands import alone, need


def bring(*wanted: str) -> list[Path]:
    """The jars, without their dependencies."""
    return [_bring(coordinates) for coordinates in wanted]


def bring_all(pom: Path) -> Path:
    """The folder of all jars; its name is derived from the pom."""
    folder = _cache() / f"{pom.parent.name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:16]}"
    with alone(folder.name):
        if not folder.exists():
            part = folder.with_suffix(".part")
            rmtree(part, ignore_errors=True)
            _maven("dependency:copy-dependencies", "-f", str(pom), f"-DoutputDirectory={part}")
            part.rename(folder)
    return folder


def _bring(coordinates: str) -> Path:
    _, artifact, version, *classifier = coordinates.split(":")
    jar = _cache() / f"{'-'.join([artifact, version, *classifier[1:]])}.jar"
    with alone(jar.name):
        if not jar.exists():
            _maven("dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={jar.parent}")
    return jar


def _cache() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg" / "jars"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _maven(*arguments: str) -> None:
    command = [str(need("mvn", apt="maven")), "-q", "-B", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"Maven cannot do {' '.join(arguments)}: {(done.stdout + done.stderr).strip()[:200]}")
