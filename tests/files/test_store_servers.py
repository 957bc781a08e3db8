"""The stores that other tests use do what they shall: keep objects, refuse strangers, and fail as they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.io import load_file_io

from kit.servers import store_servers
from kit.servers.store_faults import CutBody, LostAnswer, ResetUpload, ShortBody, SlowDown
from kit.servers.store_proxy import store_proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.servers.store_proxy import StoreProxy
    from kit.servers.store_servers import Store

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables

BYTES = bytes(range(256)) * 4000


@pytest.fixture
def store() -> Store:
    return store_servers.s3()


@pytest.fixture
def proxy(store: Store) -> Iterator[StoreProxy]:
    with store_proxy(store.address) as found:
        yield found


def write(store: Store, name: str = "a", content: bytes = BYTES) -> str:
    location = f"{store.warehouse}/{name}"
    with load_file_io(store.properties, location).new_output(location).create(overwrite=True) as stream:
        stream.write(content)
    return location


def read(store: Store, location: str) -> bytes:
    with load_file_io(store.properties, location).new_input(location).open() as stream:
        return bytes(stream.read())


@pytest.mark.slow
@pytest.mark.parametrize("kind", store_servers.ALL)
def test_every_store_keeps_an_object_through_the_proxy(kind: str) -> None:
    store = store_servers.ALL[kind]()
    with store_proxy(store.address) as proxy:
        there = store.through(proxy.address)
        with proxy.counting() as seen:
            assert read(there, write(there)) == BYTES
    assert seen.count("GET") >= 1
    assert read(store, f"{store.warehouse}/a") == BYTES


@pytest.mark.slow
def test_s3proxy_refuses_a_wrong_secret() -> None:
    store = store_servers.s3proxy()
    location = write(store)
    store.properties["s3.secret-access-key"] = "wrong"
    with pytest.raises(OSError, match=r"403|ACCESS_DENIED"):
        read(store, location)


def test_the_proxy_counts_and_fails_as_often_as_it_is_told(store: Store, proxy: StoreProxy) -> None:
    there = store.through(proxy.address)
    location = write(there)
    with proxy.counting() as seen, proxy.failing(SlowDown(), "GET", "warehouse/a$", times=1) as met:
        assert read(there, location) == BYTES  # the client tries again
    assert met.times == 1
    assert seen.count("GET", "warehouse/a$") == 2
    assert seen.methods("nothing") == {}


def test_a_cut_answer_is_not_a_whole_one(store: Store, proxy: StoreProxy) -> None:
    there = store.through(proxy.address)
    location = write(there)
    with proxy.failing(CutBody(1000), "GET"), pytest.raises(OSError):
        read(there, location)
    with proxy.failing(ShortBody(10), "GET", times=1):
        assert read(there, location) != BYTES


def test_an_upload_is_cut_or_its_answer_lost(store: Store, proxy: StoreProxy) -> None:
    there = store.through(proxy.address)
    with proxy.failing(ResetUpload(), "PUT") as cut, pytest.raises(OSError):
        write(there, "cut")
    assert cut.times >= 1
    with pytest.raises(FileNotFoundError):
        read(store, f"{store.warehouse}/cut")
    # PyArrow uploads in parts: a POST begins, another ends it.
    with proxy.failing(LostAnswer(), "POST", skip=1) as lost, pytest.raises(OSError):
        write(there, "lost")
    assert lost.times >= 1
    assert read(store, f"{store.warehouse}/lost") == BYTES


def test_only_the_right_session_token_gets_in(store: Store, proxy: StoreProxy) -> None:
    there = store.through(proxy.address)
    location = write(there)
    proxy.need_token("fresh")
    with pytest.raises(OSError, match="HTTP status 400"):
        read(there, location)
    there.properties["s3.session-token"] = "fresh"
    assert read(there, location) == BYTES
