"""Failures of an object store, injected by a proxy: a table-driven look at what a reader and a writer make of each.

A passing failure is retried by the client of the store, and nobody sees it. A lasting one is an error that names the
object. In no case are rows wrong, and no commit is half there: a table is as it was before, or as it is after.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.servers import store_servers
from kit.servers.store_faults import (
    BUCKET_REGION,
    AccessDenied,
    CutBody,
    ErrorAnswer,
    ExpiredToken,
    Fault,
    LostAnswer,
    NoSuchKey,
    OtherBody,
    Reset,
    ResetUpload,
    ServerError,
    ShortBody,
    SlowDown,
    WrongRegion,
)
from kit.servers.store_proxy import store_proxy
from sealberg.errors import IntegrityError, SealbergError, StorageAccessError, StorageError
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.servers.store_proxy import StoreProxy
    from kit.servers.store_servers import Store

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables

KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
# Values that do not compress: the file is larger than the piece at its end that is read first.
ROWS = pa.table({"id": pa.array(range(40_000), pa.int64()), "v": pa.array([hash((i, 7)) for i in range(40_000)])})
FEW = ROWS.slice(0, 10)
DATA, LIST, METADATA = r"\.parquet$", r"snap-.*\.avro$", r"\.metadata\.json$"
MANIFEST = r"-m\d+\.avro$"
TYPED = (StorageError, IntegrityError, FileNotFoundError)


@pytest.fixture(scope="module")
def store() -> Store:
    return store_servers.s3()


@pytest.fixture(scope="module")
def proxy(store: Store) -> Iterator[StoreProxy]:
    with store_proxy(store.address) as found:
        yield found


@pytest.fixture(scope="module")
def catalog(store: Store, proxy: StoreProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client that goes through the proxy; it does not try for long."""
    folder = tmp_path_factory.mktemp("catalog")
    there = store.through(proxy.address)
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": store.warehouse, **there.properties}
    with sealberg.load_catalog("lake", **properties, **KMS) as found:
        found.create_namespace("db")
        table = found.create_table("db.read", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        yield found


def written(catalog: Any) -> Any:
    table = catalog.create_table(f"db.t{uuid.uuid4().hex}", FEW.schema, properties={"encryption.key-id": "hr"})
    table.append(FEW)
    return table


# -- reading --------------------------------------------------------------------------------------

PASSING: list[tuple[Fault, str]] = [
    (SlowDown(), "GET"),
    (ServerError(), "GET"),
    (Reset(), "GET"),
    (SlowDown(), "HEAD"),
    (Reset(), "HEAD"),
]


@pytest.mark.parametrize(("fault", "method"), PASSING)
def test_a_passing_failure_is_not_seen_by_a_reader(fault: Fault, method: str, catalog: Any, proxy: StoreProxy) -> None:
    with proxy.failing(fault, method, DATA, times=1) as met:
        assert catalog.load_table("db.read").scan().to_arrow().equals(ROWS.cast(arrow_schema(catalog)))
    assert met.times == 1


def arrow_schema(catalog: Any) -> pa.Schema:
    return catalog.load_table("db.read").scan("id < 0").to_arrow().schema


LASTING: list[tuple[Fault, str]] = [
    (AccessDenied(), "GET"),
    (ErrorAnswer(400, "ExpiredToken"), "GET"),
    (NoSuchKey(), "GET"),
    (NoSuchKey(), "HEAD"),
    (AccessDenied(), "HEAD"),
    (WrongRegion(301), "GET"),
    (CutBody(100), "GET"),
    (ShortBody(10), "GET"),
    (OtherBody(0), "GET"),
    (OtherBody(40_000), "GET"),
]


@pytest.mark.parametrize(("fault", "method"), LASTING)
def test_a_lasting_failure_of_a_data_file_names_the_file_and_gives_no_rows(
    fault: Fault, method: str, catalog: Any, proxy: StoreProxy
) -> None:
    table = catalog.load_table("db.read")
    (task,) = table.scan().plan_files()
    name = str(task.file.file_path)
    with proxy.failing(fault, method, DATA) as met, pytest.raises(TYPED) as caught:
        table.scan().to_arrow()
    assert met.times >= 1
    assert name.rpartition("/")[2] in told(caught.value)
    if isinstance(fault, OtherBody | ShortBody):
        assert isinstance(caught.value, IntegrityError)
    if fault == AccessDenied():
        assert isinstance(caught.value, StorageAccessError)
    if fault == NoSuchKey() and method == "HEAD":
        assert isinstance(caught.value, FileNotFoundError)


def told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("status", [301, 400])
@pytest.mark.parametrize("key", [DATA, METADATA])
def test_a_wrong_region_is_told_with_the_bucket_and_the_setting(
    key: str, status: int, catalog: Any, store: Store, proxy: StoreProxy
) -> None:
    """PyArrow sees a HEAD refused first. Its 400 has no reason in it: it may be the region, or a token at its end."""
    with proxy.failing(WrongRegion(status), None, key) as met, pytest.raises(StorageError) as caught:
        catalog.load_table("db.read").scan().to_arrow()
    assert met.times >= 1
    told_region = "is in another region than the one that the request was signed for; set s3.region"
    expected = told_region if status == 301 else "if s3.region in the configuration of the catalog is not the region of"
    assert f"bucket {store.bucket}" in str(caught.value)
    assert expected in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 400])
def test_fsspec_names_the_region_that_s3_answers(status: int, catalog: Any, store: Store, proxy: StoreProxy) -> None:
    there = store_servers.with_fsspec(store.through(proxy.address)).properties
    location = catalog.load_table("db.read").metadata_location
    table = sealberg.open_table(location, {**there, **KMS}, expected_key_id="hr")
    with proxy.failing(WrongRegion(status), None, DATA), pytest.raises(StorageError) as caught:
        table.scan().to_arrow()
    assert f"set s3.region in the configuration of the catalog to {BUCKET_REGION}" in str(caught.value)


def test_a_write_to_a_bucket_in_another_region_names_the_setting(catalog: Any, proxy: StoreProxy) -> None:
    table = written(catalog)
    with (
        proxy.failing(WrongRegion(400), None, DATA),
        pytest.raises(StorageError, match=r"\.parquet: .* set s3\.region"),
    ):
        table.append(FEW)
    assert catalog.load_table(table.name()).scan().to_arrow().num_rows == 10


@pytest.mark.parametrize("skip", [0, 1])
def test_an_object_that_changes_between_two_reads_of_it_is_refused(skip: int, catalog: Any, proxy: StoreProxy) -> None:
    """The footer is of one object and the pages of another, or the other way round: AES-GCM refuses the mixture."""
    table = catalog.load_table("db.read")
    with proxy.failing(OtherBody(), "GET", DATA, skip=skip) as met, pytest.raises(IntegrityError):
        table.scan().to_arrow()
    assert met.times >= 1


@pytest.mark.parametrize("key", [LIST, MANIFEST])
@pytest.mark.parametrize("fault", [AccessDenied(), ExpiredToken(), CutBody(10), ShortBody(10), OtherBody()])
def test_a_manifest_that_cannot_be_read_is_named(key: str, fault: Fault, catalog: Any, proxy: StoreProxy) -> None:
    table = written(catalog)
    cache.clear()
    with proxy.failing(fault, "GET", key) as met, pytest.raises(TYPED) as caught:
        catalog.load_table(table.name()).scan().to_arrow()
    assert met.times >= 1
    assert ".avro" in told(caught.value)


# -- writing --------------------------------------------------------------------------------------

WRITES: list[tuple[Fault, str, str]] = [
    (ErrorAnswer(403, "AccessDenied"), "POST", DATA),  # one prefix of the bucket
    (ErrorAnswer(400, "ExpiredToken"), "PUT", DATA),
    (ErrorAnswer(403, "AccessDenied"), "POST", MANIFEST),
    (ErrorAnswer(403, "AccessDenied"), "PUT", LIST),
    (ErrorAnswer(403, "AccessDenied"), "POST", METADATA),
    (ErrorAnswer(400, "ExpiredToken"), "PUT", METADATA),
    (ErrorAnswer(404, "NoSuchUpload"), "POST", METADATA),
]


@pytest.mark.parametrize(("fault", "method", "key"), WRITES)
def test_a_write_that_fails_names_the_object_and_leaves_the_table_as_it_was(
    fault: Fault, method: str, key: str, catalog: Any, proxy: StoreProxy
) -> None:
    table = written(catalog)
    with proxy.failing(fault, method, key) as met, pytest.raises(TYPED) as caught:
        table.append(FEW)
    assert met.times >= 1
    assert table.name()[-1] in told(caught.value)
    again = catalog.load_table(table.name())
    assert again.scan().to_arrow().num_rows == 10
    again.append(FEW)
    assert catalog.load_table(table.name()).scan().to_arrow().num_rows == 20


@pytest.mark.parametrize(("fault", "method"), [(SlowDown(), "PUT"), (ResetUpload(), "PUT"), (Reset(), "POST")])
@pytest.mark.parametrize("key", [DATA, METADATA])
def test_a_passing_failure_of_an_upload_is_not_seen_by_a_writer(
    fault: Fault, method: str, key: str, catalog: Any, proxy: StoreProxy
) -> None:
    table = written(catalog)
    with proxy.failing(fault, method, key, times=1) as met:
        table.append(FEW)
    assert met.times == 1
    assert catalog.load_table(table.name()).scan().to_arrow().num_rows == 20


@pytest.mark.parametrize("key", [DATA, MANIFEST, LIST, METADATA])
def test_a_lost_answer_to_an_upload_never_leaves_half_a_commit(key: str, catalog: Any, proxy: StoreProxy) -> None:
    """The store has the whole object and the client does not know it: the append is there wholly, or not at all."""
    table = written(catalog)
    with proxy.failing(LostAnswer(), "POST", key, times=1, skip=1) as met, contextlib.suppress(OSError, SealbergError):
        table.append(FEW)
    assert met.times == 1
    again = catalog.load_table(table.name())
    assert again.scan().to_arrow().num_rows in (10, 20)
    before = again.scan().to_arrow().num_rows
    again.append(FEW)
    assert catalog.load_table(table.name()).scan().to_arrow().num_rows == before + 10
