"""A hostile bucket: every edit of a list, in metadata.json and in every other file, through every door.

    doors      a catalog (SQL; Hive and Glue in the slow tests) with and without a hash, and `open_table`
    tables     plain of version 1, 2 and 3, and encrypted
    edits      properties, versions, and every path: another scheme, another host, `..`, another table's file

After each edit: no code was run, no connection was made (a socket guard, and a decoy that listens), and the rows are
right or there is an error with a name. A plain table may show what its own files say: nobody vouches for those.
"""

from __future__ import annotations

import json
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError

import sealberg
from kit.tables import catalogs
from sealberg.errors import SealbergError, TrustError
from sealberg.files.confined_io import ALLOWED, store, stores
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kit.tables.catalogs import Lake

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables

ROWS: Final = pa.table({"name": ["Ada", "Bob"], "salary": [12, 13]})
WANTED: Final = [("Ada", 12), ("Bob", 13)]
RIGHT: Final = (None, WANTED)
KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
KINDS: Final = {"v1": {"format-version": "1"}, "v2": {"format-version": "2"}, "v3": {"format-version": "3"}}
ENCRYPTED: Final = {"encryption.key-id": "hr"}
vouching = catalogs.vouching  # the fixture: every catalog that keeps metadata in storage; for REST see test_server.py
called: list[Any] = []


def canary(*args: Any, **_: Any) -> Any:
    """What the metadata name as code."""
    called.append(args)
    raise AssertionError("code that the metadata name was run")


# -- the guards ----------------------------------------------------------------------------------


@contextmanager
def decoy() -> Iterator[tuple[int, list[bytes]]]:
    """A server that takes what is sent to it: nothing may come."""
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        done = threading.Event()

        def serve() -> None:
            while not done.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(0.2)
                    try:
                        got.append(connection.recv(4096))
                    except TimeoutError:
                        got.append(b"a connection")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1], got
        finally:
            done.set()
            thread.join()


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, *allowed: int) -> Iterator[int]:
    """No code, no connection but to the servers of the test; gives the port of the decoy."""
    called.clear()
    tried: list[Any] = []
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[1] not in allowed:
            tried.append(address)
            raise OSError(f"a connection to {address}")
        connect(self, address)

    with decoy() as (port, got), monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield port
    assert called == []
    assert tried == []
    assert got == []


# -- the edits -----------------------------------------------------------------------------------

Raw = dict[str, Any]


def everywhere(value: Any, change: Callable[[str], str]) -> Any:
    """The same document with every location changed."""
    if isinstance(value, dict):
        return {name: everywhere(each, change) for name, each in value.items()}
    if isinstance(value, list):
        return [everywhere(each, change) for each in value]
    return change(value) if isinstance(value, str) and value.startswith("file:") else value


def edits(port: int, other: str) -> Iterator[tuple[str, Callable[[Raw], Raw]]]:
    """Every edit, by name; `other` is a file of another table."""

    def properties(**given: str) -> Callable[[Raw], Raw]:
        return lambda raw: {**raw, "properties": {**raw["properties"], **given}}

    code, there = f"{__name__}.canary", f"http://127.0.0.1:{port}"
    for name in ("py-io-impl", "write.py-location-provider.impl", "s3.retry-strategy-impl", "py-catalog-impl"):
        yield f"code in {name}", properties(**{name: code})
    yield (
        "endpoints",
        properties(**dict.fromkeys(("s3.endpoint", "s3.proxy-uri", "s3.signer.uri"), there)),
    )
    yield "hosts", properties(**{"hdfs.host": "127.0.0.1", "hdfs.port": str(port), "adls.account-host": there})
    yield "defaults", properties(DEFAULT_SCHEME="hdfs", DEFAULT_NETLOC=f"127.0.0.1:{port}")
    yield (
        "paths to write to",
        properties(**dict.fromkeys(("write.data.path", "write.metadata.path"), f"hdfs://127.0.0.1:{port}/x")),
    )
    yield "numbers that are none", properties(**{"write.target-file-size-bytes": "x", "commit.retry.num-retries": "x"})
    for version in (0, 1, 2, 3, 4, -1, "3", None, 2.5, True):
        yield f"version {version!r}", lambda raw, version=version: {**raw, "format-version": version}  # type: ignore[misc]
    for scheme in ("hdfs", "viewfs", "http", "https", "ftp", "s3x", "memory", "data"):
        place = f"{scheme}://127.0.0.1:{port}/x"
        yield f"all paths to {scheme}", lambda raw, place=place: everywhere(raw, lambda _: place)  # type: ignore[misc]
    yield "a path out of the folder", lambda raw: everywhere(raw, lambda path: f"{path}/../../../../../../etc/passwd")
    yield (
        "paths with a host",
        lambda raw: everywhere(raw, lambda path: path.replace("file://", f"file://127.0.0.1:{port}")),
    )
    yield "another table's file", lambda raw: everywhere(raw, lambda path: other if path.endswith(".avro") else path)
    yield "no paths", lambda raw: everywhere(raw, lambda _: "")
    yield "a path with a null", lambda raw: everywhere(raw, lambda path: f"{path}\0")
    for member in ("schemas", "snapshots", "refs", "partition-specs", "properties", "location", "table-uuid"):
        values: tuple[Any, ...] = (None, 1, "x", [], {}, [None])
        for value in values:
            yield f"{member} {value!r}", lambda raw, member=member, value=value: {**raw, member: value}  # type: ignore[misc]


NAMED: Final = (SealbergError, ValidationError, ValueError, OSError)
OF_PYICEBERG: Final = (*NAMED, AttributeError, TypeError, KeyError)  # versions 1 and 2 are planned and read by it


def attempt(act: Callable[[], Any]) -> list[tuple[str, int]] | None:
    """The rows, or None where there was an error with a name; every other error goes through."""
    cache.clear()
    try:
        found = act().scan().to_arrow()
    except (SealbergError, OSError):
        return None
    return sorted(zip(found["name"].to_pylist(), found["salary"].to_pylist(), strict=True))


def folder_of(table: Any) -> Path:
    return Path(urlsplit(table.metadata_location).path)


def sql(folder: Path, **more: str) -> Any:
    place = f"file://{folder}/warehouse"
    return sealberg.load_catalog("t", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=place, **KMS, **more)


def two_tables(catalog: Any, properties: dict[str, str]) -> tuple[Any, str]:
    catalog.create_namespace_if_not_exists("db")
    neighbour = catalog.create_table("db.other", ROWS.schema, properties=properties)
    neighbour.append(ROWS.slice(1))
    table = catalog.create_table("db.t", ROWS.schema, properties=properties)
    table.append(ROWS)
    return table, str(neighbour.current_snapshot().manifest_list)


@pytest.mark.parametrize("hashed", [True, False], ids=["hash", "no hash"])
def test_metadata_of_an_encrypted_table(hashed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql(tmp_path)
    table, other = two_tables(catalog, ENCRYPTED)
    place, pointer = folder_of(table), catalog._pointer
    if not hashed:  # as Hive and Glue tables of other tools may be

        def without(name: Any) -> Any:
            location, trusted = pointer(name)
            return location, trusted and replace(trusted, metadata_hash=None)

        catalog._pointer = without
    good = place.read_text()
    rows, refused = 0, 0
    with watched(monkeypatch) as port:
        for name, edit in edits(port, other):
            place.write_text(json.dumps(edit(json.loads(good)), separators=(",", ":")))
            found = attempt(lambda: catalog.load_table("db.t"))
            # Without a hash nobody can tell that snapshots were left out.
            assert found in RIGHT or (not hashed and found == []), name
            rows, refused = rows + (found is not None), refused + (found is None)
            expected = attempt(lambda: sealberg.open_table(f"file://{place}", KMS, expected_key_id="hr"))
            assert expected in (*RIGHT, []), name
    assert refused > 60 if hashed else rows > 5


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_of_a_plain_table(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql(tmp_path)
    table, other = two_tables(catalog, KINDS[kind])
    place = folder_of(table)
    good = place.read_text()
    named = NAMED if kind == "v3" else OF_PYICEBERG
    with watched(monkeypatch) as port:
        for name, edit in edits(port, other):
            place.write_text(json.dumps(edit(json.loads(good)), separators=(",", ":")))
            for door in (lambda: catalog.load_table("db.t"), lambda: sealberg.open_table(f"file://{place}", KMS)):
                try:
                    found = attempt(door)
                except named:
                    continue  # PyIceberg's own words
                # Its own rows, none where it has no snapshots, or those of its neighbour.
                assert found in (None, WANTED, [], [("Bob", 13)]), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_table_is_written_nowhere_else(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql(tmp_path)
    table, _ = two_tables(catalog, KINDS[kind])
    place = folder_of(table)
    good = json.loads(place.read_text())
    with watched(monkeypatch) as port:
        there = f"hdfs://127.0.0.1:{port}/x"
        for change in (
            {"location": there},
            {"properties": dict.fromkeys(("write.data.path", "write.metadata.path"), there)},
        ):
            place.write_text(json.dumps({**good, **change}, separators=(",", ":")))
            with pytest.raises(TrustError, match="is in another store"):
                catalog.load_table("db.t").append(ROWS)
            with (
                pytest.raises(TrustError, match=rf"the next metadata file of db\.t would be {there}/.*, outside of"),
                catalog.load_table("db.t").transaction() as tx,
            ):
                tx.set_properties({"owner": "me"})


@pytest.mark.parametrize("properties", [*KINDS.values(), ENCRYPTED], ids=[*KINDS, "encrypted"])
def test_other_files_replaced(properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = sql(tmp_path)
    table, _ = two_tables(catalog, properties)
    root = folder_of(table).parents[1]
    files = [path for path in root.rglob("*") if path.is_file() and path.suffix in (".avro", ".parquet")]
    others = [path for path in root.parent.joinpath("other").rglob("*") if path.suffix in (".avro", ".parquet")]
    assert len(files) == 3
    with watched(monkeypatch):
        for path in files:
            good = path.read_bytes()
            twins = [each.read_bytes() for each in others if each.suffix == path.suffix]
            for content in (b"", good[:8], good[:-1], good + b"\0", good[::-1], b"Obj\x01", b"PAR1" * 4, *twins):
                path.write_bytes(content)
                try:
                    found = attempt(lambda: catalog.load_table("db.t"))
                except Exception:
                    assert properties is not ENCRYPTED, (path.name, content[:20])
                    continue
                assert found in (None, WANTED) or properties is not ENCRYPTED, (path.name, content[:20])
            path.write_bytes(good)
    assert attempt(lambda: catalog.load_table("db.t")) == WANTED


# -- stores --------------------------------------------------------------------------------------


def test_the_store_of_a_location() -> None:
    assert store("s3://a/b") == store("s3a://c/d") == "s3"
    assert store("/a/b") == store("file:///a") == store("file://host/a") == "file"
    assert store("hdfs://One:1/a") == store("hdfs://one:1/b") != store("hdfs://two:1/a")
    assert store("gs://a") != store("s3://a") != store("abfss://a@b/c") != store("https://a/b")
    assert store("http://[/") == "unknown"


def test_the_operator_may_allow_a_store() -> None:
    given = {ALLOWED: "hdfs://one:8020, gs://b", "warehouse": "s3://w", "hdfs.host": "two"}
    assert stores(given, "file:///x", None) == {
        "hdfs://one:8020",
        "gs",
        "s3",
        "hdfs://two",
        "hdfs://two:8020",
        "hdfs://",
        "file",
    }
    assert stores({"warehouse": "prod"}) == set()


# -- every catalog -------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [KINDS["v2"], KINDS["v3"], ENCRYPTED], ids=["v2", "v3", "encrypted"])
def test_every_catalog(properties: dict[str, str], vouching: Lake) -> None:
    catalog = vouching.connect()
    table, other = two_tables(catalog, properties)
    place = folder_of(table)
    good = place.read_text()
    named = OF_PYICEBERG if properties is KINDS["v2"] else NAMED
    called.clear()
    with decoy() as (port, got):
        for name, edit in edits(port, other):
            place.write_text(json.dumps(edit(json.loads(good)), separators=(",", ":")))
            try:
                found = attempt(lambda: catalog.load_table("db.t"))
            except named:
                assert properties is not ENCRYPTED, name
                continue
            assert found in (None, WANTED) or (found in ([], [("Bob", 13)]) and properties is not ENCRYPTED), name
    place.write_text(good)
    assert called == []
    assert got == []
