"""In `make quick` a job has one test, the first of its module: tests of jobs make tables and run for a second each."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # as the hook of all tests, which comes after this
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    first: dict[Path, str] = {}
    for item in items:
        if item.path.parent == HERE:
            name = item.name.partition("[")[0]
            if name != first.setdefault(item.path, name):
                item.add_marker(pytest.mark.slow)
