"""The Thrift server, as BI tools see it by JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.programs.doors import Lake, jdbc, thrift_server
from kit.programs.visit import visit

if TYPE_CHECKING:
    from pathlib import Path


def test_two_users_of_the_thrift_server(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    with thrift_server(lake) as url, jdbc(lake, url, "ada") as ada, jdbc(lake, url, "bob") as bob:
        visit(ada, lake)
        visit(bob, lake, "other")
