"""A named pipe in place of a file, and specs with which nothing can be computed: typed errors, and soon."""

from __future__ import annotations

import copy
import json
import os
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DecimalType, LongType, NestedField

import sealberg
from kit.programs.spark import properties_of
from sealberg.errors import AccessDeniedError, FormatError, SealbergError
from sealberg.files.byte_sources import as_source
from sealberg.files.confined_io import refuse_special_file
from sealberg.keys.keystore.kms import PassphraseSource
from sealberg.metadata import decode_cache
from sealberg.metadata.table_metadata import V3TableMetadata

if TYPE_CHECKING:
    from collections.abc import Callable


def table(folder: Path) -> Any:
    catalog: Any = sealberg.load_catalog("prod", **properties_of(folder))
    catalog.create_namespace("hr")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "d", DecimalType(9, 2)))
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "b"))
    made = catalog.create_table("hr.t", schema, partition_spec=spec, properties={"encryption.key-id": "hr"})
    made.append(pa.table({"id": pa.array([1], pa.int64()), "d": pa.array([1], pa.decimal128(9, 2))}))
    return made


def soon(act: Callable[[], Any]) -> Any:
    """What came of it, within a minute."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for somebody who writes into the pipe"
    return found[0]


def test_a_pipe_in_place_of_any_file_of_a_table(tmp_path: Path) -> None:
    made = table(tmp_path)
    files = sorted(path for path in (tmp_path / "wh").rglob("*") if path.is_file())
    assert len(files) >= 4
    for path in files:
        kept = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        decode_cache.clear()
        if str(path) in made.metadata_location or not path.name.endswith(".json"):
            catalog = sealberg.load_catalog("prod", **properties_of(tmp_path))
            found = soon(lambda opened=catalog: opened.load_table("hr.t").scan().to_arrow())  # type: ignore[misc]
            assert isinstance(found, SealbergError), (path, found)
            assert "named pipe" in str(found)
        path.unlink()
        path.write_bytes(kept)
    assert made.scan().to_arrow().num_rows == 1


def test_a_pipe_is_no_source_and_no_special_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert isinstance(soon(lambda: as_source(tmp_path / "pipe")), FormatError)
    for location in (str(tmp_path / "pipe"), f"file://{tmp_path}/pipe", f"file:{tmp_path}/pipe", "file:///dev/zero"):
        with pytest.raises(FormatError, match="expected a regular file"):
            refuse_special_file(location)
    refuse_special_file(f"file://{tmp_path}/nothing")
    refuse_special_file("s3://lake/pipe")


@pytest.mark.parametrize("width", ["0", "-1", "2147483648", "9" * 400])
@pytest.mark.parametrize("kind", ["bucket", "truncate"])
def test_widths_out_of_bounds(tmp_path: Path, kind: str, width: str) -> None:
    raw = json.loads(Path(table(tmp_path).metadata_location.removeprefix("file://")).read_text())
    transform = f"{kind}[{width}]"
    specs, orders = copy.deepcopy(raw), copy.deepcopy(raw)
    specs["partition-specs"][0]["fields"][0]["transform"] = transform
    order = {"source-id": 1, "transform": transform, "direction": "asc", "null-order": "nulls-first"}
    orders["sort-orders"] = [{"order-id": 1, "fields": [order]}]
    orders["default-sort-order-id"] = 1
    for hostile in (specs, orders):
        with pytest.raises(FormatError):
            V3TableMetadata.from_raw(hostile)


@pytest.mark.parametrize("kind", ["decimal(9,99)", "decimal(99,1)", "decimal(0,0)", f"fixed[{'9' * 30}]"])
@pytest.mark.parametrize("nested", [False, True])
def test_types_out_of_bounds(tmp_path: Path, kind: str, nested: bool) -> None:
    raw = json.loads(Path(table(tmp_path).metadata_location.removeprefix("file://")).read_text())
    inner = {"type": "list", "element-id": 9, "element": kind, "element-required": False} if nested else kind
    raw["schemas"][0]["fields"][1]["type"] = inner
    with pytest.raises(FormatError):
        V3TableMetadata.from_raw(raw)


def test_the_file_of_a_sqlite_catalog_and_a_passphrase_are_the_owners(tmp_path: Path) -> None:
    table(tmp_path)
    assert stat.S_IMODE((tmp_path / "catalog.db").stat().st_mode) == 0o600
    secret = tmp_path / "secret"
    secret.write_text("a passphrase\n")
    for mode in (0o644, 0o640, 0o602):
        secret.chmod(mode)
        with pytest.raises(AccessDeniedError, match=f"has mode {mode:04o}.*chmod 600"):
            PassphraseSource(secret).get()
    secret.chmod(0o400)
    assert PassphraseSource(secret).get() == "a passphrase"
