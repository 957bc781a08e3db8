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


@pytest.hookimpl(tryfirst=True)  # as the hook of all tests, which comes after this
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
            "spark.jars": ",".join([file_systems(folder), *connectors()]),
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


def file_systems(folder: Path) -> str:
    """A jar with the file systems of java/, which Spark must know before it starts."""
    import subprocess
    from pathlib import Path

    import pyspark

    from kit.programs.commands import compile_java, jdk

    jars = Path(pyspark.__file__).parent / "jars"
    sources = sorted((Path(__file__).parent / "java").glob("*.java"))
    classes = compile_java(*sources, classpath=f"{jars}/*")
    jar = jdk().javac.with_name("jar")
    subprocess.run([jar, "cf", folder / "file-systems.jar", "-C", classes, "."], check=True)
    return str(folder / "file-systems.jar")
