"""A job in Java by spark-submit: in client mode here, and in cluster mode on a standalone cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.programs.doors import Lake, java_job
from kit.programs.visit import visit

if TYPE_CHECKING:
    from pathlib import Path


def test_a_java_job_in_client_mode(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    with java_job(lake) as door:
        visit(door, lake)
