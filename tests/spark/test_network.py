"""Which networks of Spark are refused: Python and Java say the same of every case of network.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sealberg.errors import ConfigError
from sealberg.spark.network import check_network

CASES = json.loads((Path(__file__).parents[2] / "jvm/src/test/resources/network.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case["settings"].values()) or "nothing")
def test_python_says_what_java_says(case: dict[str, Any]) -> None:
    if case["refusal"] is None:
        check_network(case["settings"])
        return
    with pytest.raises(ConfigError) as caught:
        check_network(case["settings"])
    assert str(caught.value) == case["refusal"]
