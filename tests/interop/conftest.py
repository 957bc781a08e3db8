"""One metastore and one Spark for all tests here; gone when others begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import sealberg
from kit.programs.iceberg_java import KMS, IcebergJava, iceberg_java
from kit.tables.three import Three

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.hookimpl(tryfirst=True)  # as the hook of all tests, which comes after this
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from pathlib import Path

    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # Spark's own


@pytest.fixture(scope="package")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergJava]:
    with iceberg_java(tmp_path_factory.mktemp("java")) as started:
        yield started


@pytest.fixture(scope="package")
def three(java: IcebergJava) -> Iterator[Three]:
    with sealberg.load_catalog("ours", type="hive", uri=java.uri, **KMS) as catalog:
        yield Three(java, catalog)
