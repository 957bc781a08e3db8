"""How many requests an encrypted table costs in an object store: no more than a plaintext one of PyIceberg."""

from __future__ import annotations

import pytest
from bench.stores import Requests, counted

from kit import store_servers
from kit.store_proxy import store_proxy


@pytest.fixture(scope="module")
def counts() -> dict[str, Requests]:
    store = store_servers.s3()
    with store_proxy(store.address) as proxy:
        found = counted(store.through(proxy.address), proxy, rows=100_000)
    return {each.operation: each for each in found}


@pytest.mark.parametrize("operation", ["append", "scan", "filter", "delete"])
def test_an_operation_asks_no_more_than_plaintext_pyiceberg(operation: str, counts: dict[str, Requests]) -> None:
    assert counts[operation].ratio <= 1.0, counts[operation].encrypted.methods()


@pytest.mark.parametrize("operation", ["append", "delete"])
def test_no_folder_is_listed_and_no_new_file_looked_for(operation: str, counts: dict[str, Requests]) -> None:
    assert counts[operation].listings() == 0
    if operation == "append":
        assert counts[operation].heads_of_data() == 0


def test_each_data_file_is_asked_for_its_length_once(counts: dict[str, Requests]) -> None:
    """PyArrow asks by itself; plaintext PyIceberg does the same."""
    assert counts["scan"].heads_of_data() == 2
    assert counts["filter"].heads_of_data() == 2
