"""Which networks and local disks of Spark are refused: Python and Java say the same of every case of two files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import ConfigError
from sealberg.spark.local_disks import check_local_disks
from sealberg.spark.network import check_network

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = Path(__file__).parents[2] / "jvm/src/test/resources"


def cases() -> list[Any]:
    return [
        pytest.param(check, case, id="-".join([check.__name__, *case["settings"].values()]))
        for file, check in (("network.json", check_network), ("local_disks.json", check_local_disks))
        for case in json.loads((CASES / file).read_text())
    ]


@pytest.mark.parametrize(("check", "case"), cases())
def test_python_says_what_java_says(check: Callable[[dict[str, str]], None], case: dict[str, Any]) -> None:
    if case["refusal"] is None:
        check(case["settings"])
        return
    with pytest.raises(ConfigError) as caught:
        check(case["settings"])
    assert str(caught.value) == case["refusal"]
