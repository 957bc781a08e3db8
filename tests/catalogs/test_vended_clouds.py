"""Vended credentials of every store, in Python: a create in S3 through Iceberg's own REST server, Google and Azure.

The configuration of the client has no credential. A proxy in front of S3 lets only one token in, a proxy in front of
Google's server shows which token was sent, and Azurite checks the signature of a SAS token.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.servers import store_servers
from kit.servers.hostile_server import KMS, Server, listening
from kit.servers.rest_server import rest_server_on_s3, seen_by_java
from kit.servers.store_proxy import store_proxy
from kit.servers.store_servers import AZURE_ACCOUNT, Store, sas_token
from sealberg.errors import StorageAccessError
from sealberg.metadata.storage_properties import sas_of_account

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
ENCRYPTED = {"encryption.key-id": "hr"}
CREDENTIALS = ("s3.access-key-id", "s3.secret-access-key", "gcs.oauth2.token", "adls.account-")
HOST = f"{AZURE_ACCOUNT}.dfs.core.windows.net"

pytestmark = pytest.mark.slow


def without_credentials(store: Store) -> dict[str, str]:
    return {name: value for name, value in store.properties.items() if not name.startswith(CREDENTIALS)}


def ids(table: Any) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@contextmanager
def served(store: Store, folder: Path, **answer: Any) -> Iterator[str]:
    """The address of a REST server of one table in the store; `answer` is what it says with the table."""
    place = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": store.warehouse, **store.properties}
    with sealberg.load_catalog("own", **place, **KMS) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
        table.append(ROWS)
        text = table.io.new_input(table.metadata_location).open().read()
        server = Server(json.loads(text), table.metadata_location)
    server.table |= answer
    with listening(server.respond, server.headers) as port, server.opened:
        yield f"http://127.0.0.1:{port}"


def test_a_table_is_created_in_s3_with_the_credentials_that_a_rest_server_hands_out(tmp_path: Path) -> None:
    store = store_servers.s3()
    vended = {"s3.access-key-id": "short", "s3.secret-access-key": "lived", "s3.session-token": "of-the-server"}
    address = rest_server_on_s3(tmp_path, store, vended)
    with store_proxy(store.address) as proxy:
        proxy.need_token("of-the-server")
        given = {"type": "rest", "uri": address, **without_credentials(store.through(proxy.address)), **KMS}
        with sealberg.load_catalog("r", **given) as catalog, proxy.counting() as seen:
            catalog.create_namespace("db")
            table = catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
            table.append(ROWS)
            table.delete("id >= 5")
            assert ids(catalog.load_table("db.t")) == [0, 1, 2, 3, 4]
    assert seen.count("PUT", r"\.parquet$") >= 1
    assert not seen.count("PUT", r"\.metadata\.json$"), "the server writes the metadata"
    keys, used, _ = seen_by_java(address, "db", "t")
    assert set(used) <= set(keys)


def test_a_token_of_google_is_used(tmp_path: Path) -> None:
    store = store_servers.gcs()
    vended = {"gcs.oauth2.token": "of-the-server", "gcs.oauth2.token-expires-at": "4102444800000"}
    with store_proxy(store.address) as proxy, served(store, tmp_path, config=vended) as address:
        given = {"type": "rest", "uri": address, **without_credentials(store.through(proxy.address)), **KMS}
        with sealberg.load_catalog("r", **given) as catalog, proxy.counting() as seen:
            assert ids(catalog.load_table("db.t")) == list(range(10))
    sent = {value for each in seen.requests for name, value in each.headers.items() if name.lower() == "authorization"}
    assert sent == {"Bearer of-the-server"}


@pytest.mark.parametrize("signed_for", ["this", "another"])
def test_a_sas_token_of_an_account_is_used_by_pyarrow(signed_for: str, tmp_path: Path) -> None:
    """adlfs, which does so too, asks for https, which Azurite here has not."""
    plain = store_servers.azure()
    store = replace(plain, bucket=f"{plain.bucket}@{HOST}")
    token = sas_token(plain.bucket if signed_for == "this" else "another")
    vended = {"prefix": f"{store.warehouse}/", "config": {f"adls.sas-token.{HOST}": token}}
    # The key of the operator would open the container, and is not used where a token is vended.
    given = plain.properties if signed_for == "another" else without_credentials(plain)
    own = {"type": "rest", **given, **KMS}
    with (
        served(store, tmp_path, **{"storage-credentials": [vended]}) as uri,
        sealberg.load_catalog("r", uri=uri, **own) as catalog,
    ):
        table = catalog.load_table("db.t")
        if signed_for == "this":
            assert ids(table) == list(range(10))
        else:
            with pytest.raises(StorageAccessError, match="db/t") as caught:
                ids(table)
            assert token.rpartition("sig=")[2][:10] not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "location", "account"),
    [
        ({}, "", "one"),
        ({"adls.account-name": "two"}, "", None),
        ({"adls.sas-token.two": "2"}, "abfss://c@two.dfs.core.windows.net/t", "two"),
        ({"adls.sas-token.two": "2", "adls.account-name": "one"}, "", "one"),
        ({"adls.sas-token.two": "2"}, "abfs://c/t", None),
    ],
)
def test_whose_sas_token_pyarrow_gets(given: dict[str, str], location: str, account: str | None) -> None:
    properties = {"adls.sas-token.one.dfs.core.windows.net": "1", "adls.sas-token-expires-at-ms.one": "9", **given}
    found = sas_of_account(properties, location)
    expected = {"one": "1", "two": "2"}
    named = {} if account is None else {"adls.account-name": account, "adls.sas-token": f"?{expected[account]}"}
    assert found == named
    assert sas_of_account(properties | {"adls.sas-token": "given"}, location) == {"adls.sas-token": "?given"}
