"""Jobs on Spark: a session that would show keys is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sealberg.errors import ConfigError
from sealberg.spark.job_runner import SparkRunner


def session(**conf: str) -> Any:
    """As much of a session as the check looks at."""
    settings = [(name.replace("_", "."), value) for name, value in conf.items()]
    return SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=lambda: settings)))


def test_a_session_that_writes_tasks_to_local_disks_in_the_clear_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"spark\.io\.encryption\.enabled is off"):
        SparkRunner(session(spark_master="local[2]", spark_authenticate="true"))


def test_a_session_whose_network_shows_keys_is_refused() -> None:
    conf = {"spark_master": "spark://host:7077", "spark_io_encryption_enabled": "true", "spark_authenticate": "true"}
    with pytest.raises(ConfigError, match="keys and rows could be read or changed on the network"):
        SparkRunner(session(**conf))
    SparkRunner(session(**{**conf, "spark_master": "local[2]"}))
