"""Every kind of file of a table, altered in every way that storage allows: a scan refuses it and says which file.

metadata.json is not here: it has no key, and the catalog vouches for it (see the tests of trust).
"""

from __future__ import annotations

import random
import re
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import FileFormat, ManifestContent
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from kit.tables import tables
from kit.tables.parquet_parts import page_indexes
from sealberg.errors import IntegrityError, SealbergError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation
from sealberg.files.parquet.reader import EncryptedParquetReader
from sealberg.metadata import decode_cache as cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.table.catalog_table import CatalogTable

pytestmark = pytest.mark.slow

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "pay", DoubleType(), required=False),
)
KINDS = ["list", "data manifest", "delete manifest", "parquet", "avro", "puffin"]


class Victim:
    """A table with two files of every kind in its snapshot, or one there and one in an older snapshot."""

    def __init__(self, folder: Path, table: CatalogTable) -> None:
        self.folder = folder
        self.table = table
        self.files: dict[str, list[Path]] = {kind: [] for kind in KINDS}
        self.keys: dict[Path, KeyMetadata] = {}
        assert isinstance(table.io, EncryptingFileIO)
        for snapshot in reversed(table.metadata.snapshots):
            assert snapshot.key_id is not None
            self._know("list", KeyedLocation(snapshot.manifest_list, table.io.open_list_key(snapshot.key_id).encode()))
            for manifest in tables.manifests(table, snapshot):
                kind = "data manifest" if manifest.content == ManifestContent.DATA else "delete manifest"
                self._know(kind, manifest.manifest_path)
            for file in (*tables.data_files(table, snapshot), *tables.delete_files(table, snapshot)):
                self._know(
                    {FileFormat.PARQUET: "parquet", FileFormat.AVRO: "avro", FileFormat.PUFFIN: "puffin"}[
                        file.file_format
                    ],
                    file.file_path,
                )

    def _know(self, kind: str, location: str) -> None:
        assert isinstance(location, KeyedLocation)
        path = tables.local(location)
        if path not in self.files[kind]:
            self.files[kind].append(path)
            self.keys[path] = location.keys

    def read(self) -> pa.Table:
        """A full scan, as a process that has just begun would do it."""
        cache.clear()
        return self.table.scan(selected_fields=("*", "_row_id", "_last_updated_sequence_number")).to_arrow()

    def refuses(self, path: Path, how: str) -> None:
        try:
            self.read()
        except SealbergError as caught:
            error: SealbergError = caught
        else:
            pytest.fail(f"{path.name} was read although {how}")
        told = f"{error} {getattr(error, '__notes__', '')}"
        assert isinstance(error, IntegrityError), f"{how}: {error!r}"
        assert path.name in told, f"{how}: {told} does not name {path.name}"

    def page_indexes(self, path: Path) -> range:
        """What our scans have no use for, and so do not read."""
        if path.suffix != ".parquet":
            return range(0)
        with EncryptedParquetReader(path, self.keys[path]) as reader:
            return page_indexes(path.read_bytes(), reader.metadata)

    def plaintext(self, path: Path) -> bytes:
        """What the file would be in a table that is not encrypted."""
        if path.suffix == ".parquet":
            sink = pa.BufferOutputStream()
            pq.write_table(self.read().select(["id", "name", "pay"]), sink)
            return bytes(sink.getvalue())
        with path.open("rb") as stream, Ags1Reader(stream, self.keys[path]) as reader:
            return bytes(reader.read())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("victim")
    with tables.sealed_catalog(folder) as catalog:
        table = tables.make(catalog, SCHEMA, **{"write.delete.mode": "merge-on-read"})
        for start in (0, 20):
            rows = {
                "id": list(range(start, start + 20)),
                "name": [f"name {i}" for i in range(start, start + 20)],
                "pay": [float(i) for i in range(start, start + 20)],
            }
            for kind in ("parquet", "avro"):
                table.transaction().set_properties({"write.format.default": kind}).commit_transaction()
                table.append(pa.table(rows))
        table.delete("id in (3, 5)")
        table.delete("id = 31")
        yield Victim(folder, table)


@pytest.fixture
def victim(made: Victim) -> Iterator[Victim]:
    """The same for every test: what it altered is put back."""
    originals = {path: path.read_bytes() for files in made.files.values() for path in files}
    expected = made.read()
    yield made
    for path, content in originals.items():
        path.write_bytes(content)
    assert made.read().equals(expected)


def test_the_victim_has_two_files_of_every_kind(victim: Victim) -> None:
    assert {kind: len(files) >= 2 for kind, files in victim.files.items()} == dict.fromkeys(KINDS, True)
    assert victim.read().num_rows == 74
    everything = {path for path in tables.stored(victim.folder) if re.search(r"\.(avro|parquet|puffin)$", path.name)}
    assert everything == set(victim.keys)


def flip(victim: Victim, path: Path, positions: list[int]) -> None:
    content = path.read_bytes()
    chance = random.Random(len(content))
    unread, rows = victim.page_indexes(path), victim.read()
    for at in positions:
        altered = bytearray(content)
        altered[at] ^= 1 << chance.randrange(8)
        path.write_bytes(altered)
        if at in unread:
            assert victim.read().equals(rows)
        else:
            victim.refuses(path, f"byte {at} of {len(content)} was flipped")
    path.write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_byte_is_refused(victim: Victim, kind: str) -> None:
    """Bytes of the structure (magic, nonces, lengths, footers, tags at both ends) and some in between."""
    path = victim.files[kind][0]
    size = path.stat().st_size
    ends = [*range(0, 24, 3), *range(size - 40, size, 3)]
    flip(victim, path, sorted({*ends, *range(24, size - 40, max(1, size // 20))}))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_any_flipped_byte_is_refused(victim: Victim, kind: str) -> None:
    """Every byte of small files; of others both ends and a thousand in between."""
    path = victim.files[kind][0]
    size = path.stat().st_size
    if size <= 1500:
        flip(victim, path, list(range(size)))
    else:
        between = random.Random(7).sample(range(100, size - 200), min(1000, size - 300))
        flip(victim, path, sorted({*range(100), *range(size - 200, size), *between}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_or_extended_file_is_refused(victim: Victim, kind: str) -> None:
    path = victim.files[kind][0]
    content = path.read_bytes()
    for length in (0, 1, 4, 8, 12, 36, len(content) // 2, len(content) - 8, len(content) - 1):
        path.write_bytes(content[:length])
        victim.refuses(path, f"it was cut to {length} bytes")
    for more in (b"\x00", content[-8:], bytes(1 << 20), content):
        path.write_bytes(content + more)
        victim.refuses(path, f"{len(more)} bytes were added")
    for less in (1, 8, 36):
        path.write_bytes(content[less:])
        victim.refuses(path, f"its first {less} bytes were cut")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_in_the_place_of_another_of_its_kind_is_refused(victim: Victim, kind: str) -> None:
    path, others = victim.files[kind][0], victim.files[kind][1:]
    content = path.read_bytes()
    for other in others:
        shutil.copyfile(other, path)
        victim.refuses(path, f"{other.name} was put in its place")
        path.write_bytes(content)


@pytest.mark.parametrize("kind", ["data manifest", "parquet", "avro"])
def test_two_files_that_changed_places_are_refused(victim: Victim, kind: str) -> None:
    one, other = victim.files[kind][:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    with pytest.raises(IntegrityError, match=f"{re.escape(one.name)}|{re.escape(other.name)}"):
        victim.read()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_another_kind_in_its_place_is_refused(victim: Victim, kind: str) -> None:
    path = victim.files[kind][0]
    for other in KINDS:
        if other != kind:
            shutil.copyfile(victim.files[other][0], path)
            victim.refuses(path, f"a file of the kind {other} was put in its place")


@pytest.mark.parametrize("kind", KINDS)
def test_a_plaintext_file_in_its_place_is_refused(victim: Victim, kind: str) -> None:
    path = victim.files[kind][0]
    plain = victim.plaintext(path)
    length = path.stat().st_size
    for content in (plain, plain[:length].ljust(length, b"\x00"), b""):
        path.write_bytes(content)
        victim.refuses(path, "a plaintext file was put in its place")


def test_the_same_file_of_an_older_table_state_is_refused(victim: Victim, tmp_path: Path) -> None:
    """The list of an older snapshot under the name of the newest would bring deleted rows back."""
    newest, older = victim.files["list"][0], victim.files["list"][1]
    shutil.copyfile(older, newest)
    victim.refuses(newest, "it was replaced by the list of the snapshot before")
