"""The site of the documentation is built, with every warning as an error, and loads nothing from another site."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOADED = re.compile(
    r'<(?:script|img|iframe|source)[^>]+src="([^"]+)"|<link rel="(?:stylesheet|icon|preload)"[^>]*href="([^"]+)"'
)


@pytest.mark.slow
def test_the_site_is_whole(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 100
    loaded = {next(filter(None, found)) for page in pages for found in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert loaded
    assert [place for place in loaded if "//" in place] == []
