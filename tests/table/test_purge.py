"""purge_table: nothing is dropped before every file is known, and every file that stays behind is named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO

from kit.servers.glue import set_parameters
from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.errors import KmsUnavailableError, LeftoverFilesError, PurgeRefusedError
from sealberg.keys.kms.memory import MemoryKms
from sealberg.metadata import decode_cache as cache
from sealberg.table import purge as purging
from sealberg.table.own_folders import Domain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
KEYED = {"encryption.key-id": "hr"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with catalogs._lake("sqlite", tmp_path) as found:
        yield found


def make(lake: Lake, appends: int = 2, **properties: str) -> Any:
    table = lake.connect().create_table("db.t", ROWS.schema, properties={**KEYED, **properties})
    for _ in range(appends):
        table.append(ROWS)
    return table


def check_whole(lake: Lake, files: set[str], rows: int = 6) -> None:
    assert lake.files() == files
    assert lake.connect().load_table("db.t").scan().to_arrow().num_rows == rows


def test_a_kms_that_does_not_answer_leaves_the_table_as_it_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake)
    files, asked = lake.files(), []
    client = lake.connect()

    def down(*request: Any) -> bytes:
        asked.append(request)
        raise KmsUnavailableError("no answer")

    monkeypatch.setattr(MemoryKms, "unwrap", down)
    with pytest.raises(KmsUnavailableError, match="no answer"):
        client.purge_table("db.t")
    assert asked
    monkeypatch.undo()
    check_whole(lake, files)
    lake.connect().purge_table("db.t")
    assert not lake.files()


@pytest.mark.parametrize("what", ["snap-", "-m0"])
@pytest.mark.parametrize("harm", ["gone", "changed"])
def test_a_manifest_that_cannot_be_read_leaves_the_table_as_it_is(lake: Lake, what: str, harm: str) -> None:
    make(lake)
    paths = [path for path in sorted(lake.files()) if what in path and path.endswith(".avro")]
    assert len(paths) == 2
    good = path_of(paths[0]).read_bytes()
    if harm == "gone":
        path_of(paths[0]).unlink()
    else:
        path_of(paths[0]).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    # Another process, which has read nothing of the table yet.
    cache.clear()
    files = lake.files()
    with pytest.raises(PurgeRefusedError, match=r"nothing was dropped: 1 manifest lists and manifests.*without purge"):
        lake.connect().purge_table("db.t")
    assert lake.files() == files
    path_of(paths[0]).write_bytes(good)
    check_whole(lake, files | {paths[0]})


def test_files_that_others_use_are_not_purged(lake: Lake) -> None:
    make(lake, 2, **{"gc.enabled": "false"})
    files = lake.files()
    with pytest.raises(PurgeRefusedError, match=r"Cannot purge table: GC is disabled \(deleting files may corrupt"):
        lake.connect().purge_table("db.t")
    check_whole(lake, files)


def test_leftovers_are_named_and_a_second_purge_deletes_them(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    make(lake, 12)
    place = lake.connect().load_table("db.t").metadata_location
    before = lake.files()
    kept = {path for path in before if path.endswith(".parquet")}
    real = PyArrowFileIO.delete

    def refuse(self: PyArrowFileIO, location: Any) -> None:
        if str(location).endswith(".parquet"):
            raise PermissionError("not allowed to delete")
        real(self, location)

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    with pytest.raises(LeftoverFilesError) as left:
        lake.connect().purge_table("db.t")
    told = str(left.value)
    assert "table db.t is dropped, and 12 of its files could not be deleted" in told
    assert "and 2 more" in told
    assert "PermissionError: not allowed to delete" in told
    assert f"register {place} and purge again" in told
    assert {str(path_of(path)) for path in left.value.files} == before == lake.files()
    assert kept <= before
    monkeypatch.undo()
    client = lake.connect()
    with pytest.raises(NoSuchTableError):
        client.load_table("db.t")
    assert client.register_table("db.again", place).scan().to_arrow().num_rows == 36
    client.purge_table("db.again")
    assert not lake.files()


def test_files_that_are_gone_already_are_no_failure(lake: Lake) -> None:
    make(lake)
    for path in lake.files():
        if path.endswith(".parquet"):
            path_of(path).unlink()
    lake.connect().purge_table("db.t")
    assert not lake.files()


def test_a_manifest_of_many_snapshots_is_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(lake, 5)
    read: list[str] = []
    from sealberg.metadata.manifest import ManifestFileV3

    real = ManifestFileV3.fetch_manifest_entry

    def count(self: ManifestFileV3, *given: Any, **named: Any) -> Any:
        read.append(str(self.manifest_path))
        return real(self, *given, **named)

    monkeypatch.setattr(ManifestFileV3, "fetch_manifest_entry", count)
    found = purging.plan(table, Domain.of(table, (), vouched=True))
    assert len(read) == len(set(read)) == 5
    assert [len(stage) for stage in found.stages] == [5, 5, 5, 0, 5, 1]


@pytest.mark.slow  # Glue comes from moto, which takes a while to import
def test_without_a_hash_only_files_of_the_metadata_folder_are_taken_on_storages_word(tmp_path: Path) -> None:
    """Who can write to storage names another's file as older metadata, or as statistics."""
    with catalogs._lake("glue", tmp_path) as lake:
        table = make(lake)
        other = tmp_path / "warehouse" / "another table" / "data.parquet"
        other.parent.mkdir(parents=True)
        other.write_bytes(b"PARE")
        place = path_of(table.metadata_location)
        raw = json.loads(place.read_text())
        raw["metadata-log"].insert(0, {"timestamp-ms": 1, "metadata-file": f"file://{other}"})
        up = f"{table.metadata_location.rpartition('/')[0]}/../../../another table/data.parquet"
        raw["metadata-log"].insert(0, {"timestamp-ms": 1, "metadata-file": up})
        place.write_text(json.dumps(raw))
        set_parameters("db.t", {"metadata_hash": None})
        with pytest.raises(LeftoverFilesError, match="except 2 that are not its own") as left:
            lake.connect().purge_table("db.t")
        assert set(left.value.files) == {f"file://{other}", up}
        assert lake.files() == {str(other)}
