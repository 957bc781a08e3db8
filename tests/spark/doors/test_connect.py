"""Spark Connect: the server has the jar and starts Python, the client has nothing of sealberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.programs.doors import Lake, connect, connect_server
from kit.programs.visit import cancelled, visit

if TYPE_CHECKING:
    from pathlib import Path


def test_a_connect_server(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    lake.environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = "a-token-of-the-test"
    with connect_server(lake) as url, connect(lake, url) as door:
        door.run(f"frames other {tmp_path}")
        visit(door, lake)
        cancelled(door, lake)


def test_a_server_in_the_jvm_of_the_client(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    with connect(lake, "local[2]") as door:
        door.run(f"frames other {tmp_path}")
        visit(door, lake)
