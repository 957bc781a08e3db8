"""Tables in object stores, from Python: the same table in S3, Google Cloud Storage and Azure, by both FileIOs.

The servers are real ones of other hands (kit.store_servers). Locations of one store can be written in several schemes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.io import load_file_io

import sealberg
from kit.servers import store_servers
from kit.servers.store_faults import ErrorAnswer, NoSuchKey, OtherBody
from kit.servers.store_proxy import store_proxy
from sealberg.errors import IntegrityError, StorageAccessError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from kit.servers.store_servers import Store

pytestmark = pytest.mark.slow

KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ENCRYPTED = {"encryption.key-id": "hr"}
ROWS = pa.table({"id": pa.array(range(1000), pa.int64()), "name": [f"canary-{i}" for i in range(1000)]})
slow = pytest.mark.slow


def connect(folder: Path, store: Store, **more: str) -> Any:
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": store.warehouse, **store.properties}
    return sealberg.load_catalog("lake", **{**properties, **KMS, **more})


def ids(table: Any, row_filter: str = "true") -> list[int]:
    return sorted(table.scan(row_filter).to_arrow()["id"].to_pylist())


def whole_life(catalog: Any) -> Any:
    """Create, append, scan, filter, delete, upsert, expire; gives the table."""
    catalog.create_namespace_if_not_exists("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
    table.append(ROWS)
    assert ids(table) == list(range(1000))
    assert ids(table, "id < 3") == [0, 1, 2]
    table.delete("id >= 500")
    table.upsert(pa.table({"id": [1, 5000], "name": ["changed", "new"]}), join_cols=["id"])
    table.maintenance.expire_snapshots().by_id(table.history()[0].snapshot_id).commit()
    found = catalog.load_table("db.t").scan("name in ('changed', 'new')").to_arrow()
    assert sorted(found["id"].to_pylist()) == [1, 5000]
    return catalog.load_table("db.t")


KINDS = [
    pytest.param("s3", False, id="s3"),
    pytest.param("s3proxy", False, id="s3-signed", marks=slow),
    pytest.param("s3", True, id="s3-fsspec", marks=slow),
    pytest.param("gcs", False, id="gcs", marks=slow),
    pytest.param("azure", False, id="azure", marks=slow),
    pytest.param("azure", True, id="azure-fsspec", marks=slow),
]


@pytest.mark.parametrize(("kind", "fsspec"), KINDS)
def test_a_table_lives_in_the_store_and_nothing_is_in_the_clear(kind: str, fsspec: bool, tmp_path: Path) -> None:
    plain = store_servers.ALL[kind]()
    store = store_servers.with_fsspec(plain) if fsspec else plain
    with connect(tmp_path, store) as catalog:
        table = whole_life(catalog)
        assert len(ids(table)) == 501
        location = table.metadata_location
        opened = sealberg.open_table(location, {**store.properties, **KMS}, expected_key_id="hr")
        assert ids(opened) == ids(table)
        files = {task.file.file_path for task in table.scan().plan_files()}
        lists = {snapshot.manifest_list for snapshot in table.snapshots()}
        io = load_file_io(dict(plain.properties))
        for name in files | lists:
            with io.new_input(str(name)).open() as stream:
                content = bytes(stream.read())
            assert content[:4] in (b"PARE", b"AGS1")
            assert b"canary" not in content
        catalog.purge_table("db.t")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gcs", "azure"])
def test_a_store_that_refuses_a_reader_is_named_with_the_object(kind: str, tmp_path: Path) -> None:
    """S3's failures are in test_store_failures; the words of the other two stores are other ones."""
    store = store_servers.ALL[kind]()
    with store_proxy(store.address) as proxy, connect(tmp_path, store.through(proxy.address)) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
        table.append(ROWS)
        faults = {ErrorAnswer(403, "AuthorizationFailure"): StorageAccessError, NoSuchKey(): FileNotFoundError}
        for fault, kind_of_error in faults.items():
            with proxy.failing(fault, None, r"\.parquet$"), pytest.raises(kind_of_error, match=r"\.parquet"):
                table.scan().to_arrow()
        with proxy.failing(OtherBody(), "GET", r"\.parquet$"), pytest.raises((IntegrityError, StorageError)):
            table.scan().to_arrow()
        assert ids(table) == list(range(1000))
