"""Several schemes name one object store: what is written under one is found under another, and no hole opens by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.io import FileIO, InputFile, OutputFile

import sealberg
from kit.servers import store_servers
from sealberg.errors import ConfigError, TrustError
from sealberg.files.confined_io import ConfinedFileIO, names_host, same_scheme, store, stores
from sealberg.files.vended_io import longest_prefix
from sealberg.metadata.storage_properties import for_file_io, from_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow  # object stores and servers, or many small tables

KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
ACCOUNT = "abfss://box@lake.dfs.core.windows.net/t/1.parquet"


@pytest.mark.parametrize(("one", "other"), [("s3", "s3a"), ("s3a", "s3"), ("s3n", "s3")])
def test_a_table_moved_from_one_scheme_to_another_opens(one: str, other: str, tmp_path: Path) -> None:
    """Java's S3FileIO writes s3://, Hadoop s3a://; the pointer names one, and the files inside the other."""
    found = store_servers.s3()
    there = found.warehouse.replace("s3://", f"{one}://")
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", **found.properties, **KMS}
    with sealberg.load_catalog("lake", warehouse=there, **properties) as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        location = table.metadata_location
        assert location.startswith(f"{one}://")
        moved = location.replace(f"{one}://", f"{other}://")
        opened = sealberg.open_table(moved, {**found.properties, **KMS}, expected_key_id="hr")
        assert opened.scan().to_arrow().num_rows == 10
        copy = catalog.register_table("db.copy", moved)
        assert copy.scan("id = 3").to_arrow().num_rows == 1
        copy.append(ROWS)
        assert catalog.load_table("db.copy").scan().to_arrow().num_rows == 20


@pytest.mark.parametrize(
    ("location", "is_in"),
    [
        ("s3://lake/t", "s3"),
        ("s3a://other/t", "s3"),
        ("S3N://other/t", "s3"),
        ("gcs://lake/t", "gs"),
        ("abfs://box/t", "abfs"),
        (ACCOUNT, "abfs://lake.dfs.core.windows.net"),
        ("wasbs://box@lake.blob.core.windows.net/t", "abfs://lake.dfs.core.windows.net"),
        ("abfs://box@LAKE.dfs.core.windows.net/t", "abfs://lake.dfs.core.windows.net"),
        ("abfss://a@b@evil.example/t", "abfs://evil.example"),
        ("file:///t", "file"),
        ("/t", "file"),
        ("hdfs://name:8020/t", "hdfs://name:8020"),
    ],
)
def test_the_store_of_a_location(location: str, is_in: str) -> None:
    assert store(location) == is_in


AZURE = ["abfss://box@lake.dfs.core.windows.net/w", "wasbs://box@lake.blob.core.windows.net/w"]


@pytest.mark.parametrize("pointer", AZURE)
def test_an_account_of_azure_is_part_of_the_store(pointer: str) -> None:
    allowed = stores({}, pointer)
    for same in (*AZURE, "abfs://other@lake.dfs.core.windows.net/x", "abfs://box/x"):
        assert store(same) in allowed
    for other in ("abfss://box@evil.dfs.core.windows.net/x", "abfss://box@lake.dfs.evil.example/x", "s3://box/x"):
        assert store(other) not in allowed


def test_metadata_cannot_name_an_account_for_a_table_that_names_none() -> None:
    assert store(ACCOUNT) not in stores({}, "abfs://box/t")
    assert store(ACCOUNT) in stores({"adls.account-name": "lake"}, "abfs://box/t")


def test_an_account_elsewhere_than_at_azure_is_a_host_to_connect_to() -> None:
    assert not names_host(ACCOUNT)
    assert names_host("abfss://box@lake.dfs.evil.example/t")
    assert not names_host("abfs://box/t")


class Recorder(FileIO):
    """Notes which locations it is asked for."""

    def __init__(self, error: Exception | None = None, **properties: str) -> None:
        super().__init__(properties)
        self.asked: list[str] = []
        self.error = error

    def new_input(self, location: str) -> InputFile:
        self.asked.append(location)
        if self.error is not None:
            raise self.error
        return None  # type: ignore[return-value]

    def new_output(self, location: str) -> OutputFile:
        raise NotImplementedError

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.asked.append(str(location))


def test_wasb_is_asked_for_as_abfs_which_fsspec_knows() -> None:
    inner = Recorder()
    confined = ConfinedFileIO(inner, stores({}, ACCOUNT))
    confined.new_input("wasbs://box@lake.blob.core.windows.net/t/1")
    confined.delete("wasb://box/t/1")
    assert inner.asked == ["abfs://box@lake.blob.core.windows.net/t/1", "abfs://box/t/1"]


def test_an_account_in_a_location_is_not_taken_for_a_container_by_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    asked: list[str] = []
    monkeypatch.setattr(PyArrowFileIO, "new_input", lambda _, location: asked.append(location))
    confined = ConfinedFileIO(PyArrowFileIO({"adls.account-name": "lake"}), stores({"adls.account-name": "lake"}))
    confined.new_input(ACCOUNT)
    confined.new_input("abfs://box/t@x/1")
    assert asked == ["abfss://box/t/1.parquet", "abfs://box/t@x/1"]
    with pytest.raises(TrustError, match="another store"):
        confined.new_input("abfss://box@evil.dfs.core.windows.net/t")


@pytest.mark.parametrize(("package", "extra"), [("adlfs", "adls"), ("s3fs", "s3")])
def test_a_missing_library_is_told_with_its_extra(package: str, extra: str) -> None:
    missing = ModuleNotFoundError(f"No module named '{package}'", name=package)
    with pytest.raises(ConfigError, match=rf"sealberg\[{extra}\]"):
        ConfinedFileIO(Recorder(missing), stores({}, "abfs://box/t")).new_input("abfs://box/t")


def test_a_prefix_fits_whichever_name_the_scheme_has() -> None:
    prefixes = ["s3://lake", "s3://lake/t", "gs://lake"]
    assert longest_prefix(prefixes, "s3a://lake/t/1") == "s3://lake/t"
    assert longest_prefix(prefixes, "s3://lake/u") == "s3://lake"
    assert longest_prefix(prefixes, "abfs://lake/t") is None
    assert same_scheme("/local/t", "s3://lake") == "/local/t"


@pytest.mark.parametrize(("given", "virtual"), [("true", "false"), ("False", "true")])
def test_path_style_access_is_told_to_pyiceberg_in_its_own_word(given: str, virtual: str) -> None:
    assert for_file_io({"s3.path-style-access": given}, {}) == {"s3.force-virtual-addressing": virtual}
    vended = from_server("db.t", {}, {"s3.path-style-access": given}, "http://server")
    assert vended["s3.force-virtual-addressing"] == virtual
    own = {"s3.force-virtual-addressing": "true"}
    assert "s3.force-virtual-addressing" not in from_server(
        "db.t", own, {"s3.path-style-access": given}, "http://server"
    )


@pytest.mark.parametrize(
    "given", [{"s3.path-style-access": "yes"}, {"s3.path-style-access": "true", "s3.force-virtual-addressing": "true"}]
)
def test_path_style_access_that_cannot_be_right_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"s3\.path-style-access"):
        for_file_io(given, {})
