"""The Thrift server, as BI tools see it by JDBC."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from kit.programs.doors import Lake, Refused, jdbc, thrift_server
from kit.programs.visit import cancelled, visit

if TYPE_CHECKING:
    from pathlib import Path


def test_two_users_at_once(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    with (
        thrift_server(lake) as url,
        jdbc(lake, url, "ada") as ada,
        jdbc(lake, url, "bob") as bob,
        ThreadPoolExecutor(2) as users,
    ):
        first = users.submit(visit, ada, lake, "prod")
        second = users.submit(visit, bob, lake, "other")
        first.result()
        second.result()
        cancelled(ada, lake)


def test_a_server_that_asks_nobody_for_a_password_is_refused(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    with thrift_server(lake, "NONE") as url, jdbc(lake, url, "eve") as door:
        with pytest.raises(Refused, match=r"asks nobody for a password.*hive\.server2\.authentication=NONE"):
            door.run("SHOW NAMESPACES IN prod")
        assert door.run("SELECT 1") == [["1"]]
