"""How many requests an encrypted table costs in an object store: no more than a plaintext one of PyIceberg."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from bench.stores import Requests, counted
from pyarrow import fs

import sealberg
from kit.servers import store_servers
from kit.servers.store_proxy import store_proxy
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables


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


def test_pyarrow_still_opens_objects_by_name_only(tmp_path: Path) -> None:
    """When this fails, PyArrow takes a length: give it that of the manifest, and the HEAD for each file is saved."""
    (tmp_path / "file").write_bytes(b"bytes")
    known = fs.FileInfo(str(tmp_path / "file"), type=fs.FileType.File, size=5)
    with pytest.raises(TypeError, match="Path must be a string"):
        fs.LocalFileSystem().open_input_file(known)


def test_files_are_read_side_by_side(tmp_path: Path) -> None:
    """So that the latency of a store is paid once for several files, and not once for each."""
    store = store_servers.s3()
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.k1": "00" * 16}
    with store_proxy(store.address) as proxy:
        there = store.through(proxy.address)
        place = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse}
        with sealberg.load_catalog("lake", **place, **there.properties, **kms) as catalog:
            catalog.create_namespace("db")
            table = catalog.create_table("db.t", rows.schema, properties={"encryption.key-id": "k1"})
            for _ in range(12):
                table.append(rows)
            cache.clear()
            with proxy.latency(0.05), proxy.at_once() as most:
                assert table.scan().to_arrow().num_rows == 120
    assert most.times >= 4
