"""One Spark session for all tests here, for it takes long to start; gone when others begin."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from kit.programs.one_spark import stop
from kit.programs.spark import SparkKit, start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from pathlib import Path

    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            # pyspark leaves its sockets to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="package")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkKit]:
    folder: Path = tmp_path_factory.mktemp("spark")
    started = start(
        folder,
        **{
            "spark.jars": ",".join([two_faced(folder), *connectors()]),
            "spark.hadoop.fs.twofaced.impl": "TwoFaced",
            # What a user sets for Hadoop, for tests that see who wins.
            "spark.hadoop.fs.s3a.endpoint.region": "eu-of-the-user",
        },
    )
    yield started
    stop(started.spark)


def connectors() -> list[str]:
    """Hadoop's connectors for object stores, without those that Maven cannot bring: their tests then say so."""
    from kit.servers.hadoop_connectors import gcs_connector, hadoop_aws, hadoop_azure

    found = []
    for jars in (hadoop_aws, hadoop_azure, gcs_connector):
        with contextlib.suppress(pytest.skip.Exception):
            found += jars()
    return found


def two_faced(folder: Path) -> str:
    """A jar with the file system of java/TwoFaced.java, which Spark must know before it starts."""
    import subprocess
    from pathlib import Path

    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    source = Path(__file__).parent / "java" / "TwoFaced.java"
    subprocess.run(["javac", "--release", "17", "-d", folder / "two", "-cp", f"{jars}/*", source], check=True)
    subprocess.run(["jar", "cf", folder / "two.jar", "-C", folder / "two", "."], check=True)
    return str(folder / "two.jar")
