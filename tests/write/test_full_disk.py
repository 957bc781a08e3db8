"""Storage that takes no more bytes: the error is the operating system's, names the file, and nothing is left behind."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFile

from kit.servers.postgres import Database, empty_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
KINDS = {
    "data": ".parquet",
    "Avro data": "/data/00000-0-",
    "manifest": "-m0.avro",
    "list": "/snap-",
    "metadata": ".metadata.json",
    "deletion vector": ".puffin",
}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with empty_database("sqlite", tmp_path) as empty:
        yield empty


def make(catalog: Any, kind: str) -> Any:
    catalog.create_namespace("db")
    more = {"write.format.default": "avro"} if kind == "Avro data" else {}
    more |= {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr", **more})
    table.append(ROWS)
    return table


def change(table: Any, kind: str) -> None:
    if kind == "deletion vector":
        table.delete("id == 2")
    else:
        table.append(ROWS)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        *((kind, errno.ENOSPC) for kind in KINDS),
        *(("data", number) for number in (errno.EROFS, errno.EDQUOT, errno.EACCES)),
        *(("metadata", number) for number in (errno.EROFS, errno.EACCES)),
    ],
)
def test_an_error_of_writing_has_its_number_and_names_the_file(
    database: Database, kind: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    real = PyArrowFile.create

    def create(file: PyArrowFile, overwrite: bool = False) -> Any:
        if KINDS[kind] not in file.location:
            return real(file, overwrite)
        refused.append(file.location)
        if number == errno.ENOSPC:
            return pa.OSFile("/dev/full", "wb")  # every write to it fails as on a full disk
        if number == errno.EACCES:  # as PyIceberg tells it
            raise PermissionError(f"Cannot create file, access denied: {file.location}") from OSError(number, "no")
        raise OSError(number, "Failed to open local file")

    with database.catalog() as catalog:
        table = make(catalog, kind)
        before = database.files()
        with monkeypatch.context() as patch:
            patch.setattr(PyArrowFile, "create", create)
            with pytest.raises(OSError, match="Errno") as caught:
                change(table, kind)
        assert caught.value.errno == number
        assert caught.value.filename == refused[0]
        assert refused[0] in str(caught.value)
        assert database.files() == before
        assert catalog.load_table("db.t").scan().count() == 3
        change(table.refresh(), kind)
