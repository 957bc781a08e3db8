"""Jars by their Maven coordinates, brought once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kit.programs import need


def bring(*wanted: str) -> list[Path]:
    """The jars, from a cache of ours; the test is skipped where Maven is missing or cannot bring them."""
    mvn = need("mvn", apt="maven")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg" / "jars"
    cache.mkdir(parents=True, exist_ok=True)
    return [_bring(str(mvn), cache, coordinates) for coordinates in wanted]


def _bring(mvn: str, cache: Path, coordinates: str) -> Path:
    _, artifact, version, *classifier = coordinates.split(":")
    jar = cache / f"{'-'.join([artifact, version, *classifier[1:]])}.jar"
    if not jar.exists():
        command = [mvn, "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={cache}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            pytest.skip(f"Maven cannot bring {coordinates}: {(done.stdout + done.stderr).strip()[:200]}")
    return jar
