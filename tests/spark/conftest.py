"""One Spark session for each worker: it takes longer to start than most tests to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.spark import SparkKit, start

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


@pytest.fixture(scope="session")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkKit]:
    folder: Path = tmp_path_factory.mktemp("spark")
    started = start(folder)
    yield started
    started.spark.stop()
