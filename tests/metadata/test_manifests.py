"""Manifests and lists: Java's are read whole, ours are read by Java's schema again."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, cast

import fastavro
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, ManifestContent

from kit.tables import golden
from sealberg.errors import AuthenticationError, FormatError, KeyNotFoundError, PlaintextFileError, TruncatedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.file_io import EncryptingFileIO, KeyedLocation, RelocatedFileIO
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.kms.memory import UnitestKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings
from sealberg.metadata import decode_cache
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.metadata.manifest_writer import ManifestWriter, write_manifest_list
from sealberg.metadata.table_metadata import V3TableMetadata

if TYPE_CHECKING:
    from pathlib import Path


def opened(table: str) -> tuple[V3TableMetadata, EncryptingFileIO, EncryptionManager]:
    metadata = V3TableMetadata.from_json(json.dumps(golden.metadata(table)))
    manager = EncryptionManager(EncryptionSettings(table, "keyA"), kms=UnitestKms.from_properties({}))
    inner = RelocatedFileIO(PyArrowFileIO(), {golden.PREFIX: f"file://{golden.root() / 'wh'}"})
    return (
        metadata,
        EncryptingFileIO(inner, lambda key_id: manager.open_list_key(metadata.encryption_keys, key_id)),
        manager,
    )


def described(file: DataFile) -> dict[str, Any]:
    assert isinstance(file, DataFileV3)
    return {
        "content": file.content.value,
        "file_path": str(file.file_path),
        "file_format": file.file_format.value,
        "spec_id": file.spec_id,
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "split_offsets": file.split_offsets,
        "equality_ids": file.equality_ids,
        "first_row_id": file.first_row_id,
        "referenced_data_file": file.referenced_data_file,
        "content_offset": file.content_offset,
        "content_size_in_bytes": file.content_size_in_bytes,
        "key_metadata_b64": base64.b64encode(file.key_metadata or b"").decode(),
    }


@pytest.mark.parametrize("table", golden.TABLES)
def test_the_live_files_of_the_current_snapshot_are_just_those_that_java_lists(table: str) -> None:
    metadata, io, _ = opened(table)
    snapshot = metadata.current_snapshot()
    assert snapshot is not None
    files = [entry.data_file for m in snapshot.manifests(io) for entry in m.fetch_manifest_entry(io)]
    lines = (golden.root() / "expected" / table / "files.jsonl").read_text().splitlines()

    def order(file: dict[str, Any]) -> tuple[str, int]:
        return file["file_path"], file["content_offset"] or 0

    assert sorted(map(described, files), key=order) == sorted(map(json.loads, lines), key=order)


@pytest.mark.parametrize("table", golden.TABLES)
def test_every_manifest_of_java_written_again_says_the_same(table: str, tmp_path: Path) -> None:
    """Copy every manifest through our writer, and compare with fastavro what Java wrote and what we wrote."""
    metadata, io, manager = opened(table)
    ours = EncryptingFileIO(PyArrowFileIO(), lambda _: manager.new_file_key())
    for snapshot in metadata.snapshots:
        for number, manifest in enumerate(snapshot.manifests(io)):
            location = f"file://{tmp_path}/{snapshot.snapshot_id}-{number}.avro"
            writer = ManifestWriter(
                ours,
                location,
                manager.new_file_key(),
                spec=metadata.specs()[manifest.partition_spec_id],
                schema=metadata.schema(),
                snapshot_id=1,
                content=manifest.content,
            )
            for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
                writer.remove(entry) if entry.status == 2 else writer.keep(entry)
            line = writer.close()
            java, java_schema = by_fastavro(golden.local(str(manifest.manifest_path)), manifest.key_metadata)
            mine, our_schema = by_fastavro(location.removeprefix("file://"), line.key_metadata)
            assert names(our_schema) == names(java_schema)
            assert [entry["data_file"] | {"first_row_id": None} for entry in mine] == [
                entry["data_file"] | {"first_row_id": None} for entry in java
            ]
            counted = (line.added_rows_count or 0) + (line.existing_rows_count or 0) + (line.deleted_rows_count or 0)
            assert counted == sum(entry["data_file"]["record_count"] for entry in java)


def by_fastavro(path: Path | str, key_metadata: bytes | None) -> tuple[list[dict[str, Any]], Any]:
    with Ags1Reader(path, KeyMetadata.decode(key_metadata or b"")) as stream:
        reader: Any = fastavro.reader(cast("Any", stream))
        return list(reader), reader.writer_schema


FASTAVRO_OWN = ("__fastavro_parsed__", "__named_schemas")


def names(schema: Any) -> Any:
    """An Avro schema as its names, ids and types, without documentation."""
    if isinstance(schema, dict):
        kept = {
            key: names(value) for key, value in schema.items() if key not in ("doc", "default", "__fastavro_parsed__")
        }
        return {key: value for key, value in kept.items() if key != "__named_schemas"}
    if isinstance(schema, list):
        return [names(item) for item in schema]
    return schema


def test_a_list_gives_row_ids_to_new_manifests_and_leaves_old_ones(tmp_path: Path) -> None:
    metadata, io, manager = opened("basic128")
    old = metadata.snapshots[-1].manifests(io)
    fresh = ManifestFileV3(*old[0]._data)
    fresh.first_row_id, fresh.sequence_number, fresh.min_sequence_number = None, -1, -1
    key = manager.new_file_key()
    out = EncryptingFileIO(PyArrowFileIO(), lambda _: written)
    lists, next_row_id = write_manifest_list(
        out, f"file://{tmp_path}/l.avro", key, [fresh, *old],  # type: ignore[list-item]
        snapshot_id=7, parent_snapshot_id=None, sequence_number=9, first_row_id=1000,
    )  # fmt: skip
    assert lists is not None
    written = lists
    rows = (fresh.added_rows_count or 0) + (fresh.existing_rows_count or 0)
    assert next_row_id == 1000 + rows
    snapshot = metadata.snapshots[-1].model_copy(update={"manifest_list": f"file://{tmp_path}/l.avro"})
    read = snapshot.manifests(out)
    assert [m.first_row_id for m in read] == [1000, *(m.first_row_id for m in old)]  # type: ignore[attr-defined]
    assert (read[0].sequence_number, read[0].min_sequence_number) == (9, 9)
    assert lists.file_length == (tmp_path / "l.avro").stat().st_size


def writing(reading: EncryptingFileIO) -> EncryptingFileIO:
    """Storage for a list that is not read back with a key of the table."""
    return EncryptingFileIO(PyArrowFileIO(), reading.open_list_key)


@pytest.mark.parametrize("count", [0, 1, 249, 250, 251, 600])
@pytest.mark.parametrize("codec", ["gzip", "null"])
def test_blocks_of_old_lines_are_used_again_and_say_the_same(tmp_path: Path, count: int, codec: str) -> None:
    metadata, io, manager = opened("basic128")
    like = metadata.snapshots[-1].manifests(io)[0]
    old = [ManifestFileV3(f"{like._data[0]}{number}", *like._data[1:]) for number in range(count)]
    found = []
    for turn in range(2):
        fresh = ManifestFileV3(*like._data)
        fresh.first_row_id, fresh.sequence_number, fresh.min_sequence_number = None, -1, -1
        place = tmp_path / f"{turn}.avro"
        key, _ = write_manifest_list(
            writing(io), place.as_uri(), manager.new_file_key(), [fresh, *old],
            snapshot_id=7, parent_snapshot_id=None, sequence_number=9, first_row_id=1000, compression=codec,
        )  # fmt: skip
        assert key is not None
        found.append(by_fastavro(place, key.encode())[0])
    assert found[0] == found[1]
    assert [line["manifest_path"] for line in found[0]] == [like._data[0], *(line._data[0] for line in old)]
    assert [line["first_row_id"] for line in found[0]] == [1000] + [like._data[-1]] * count
    if count:
        changed = [*old[:-1], ManifestFileV3(*old[-1]._data)]
        changed[-1].first_row_id = 77
        key, _ = write_manifest_list(
            writing(io), f"file://{tmp_path}/c.avro", manager.new_file_key(),
            changed, snapshot_id=8, parent_snapshot_id=None, sequence_number=10, first_row_id=1, compression=codec,
        )  # fmt: skip
        assert key is not None
        lines, _ = by_fastavro(tmp_path / "c.avro", key.encode())
        assert [line["first_row_id"] for line in lines][-1] == 77, "a block with another line is another block"


def test_what_is_kept_of_a_written_list_is_what_the_list_says(tmp_path: Path) -> None:
    metadata, io, manager = opened("basic128")
    old = metadata.snapshots[-1].manifests(io)
    place = f"file://{tmp_path}/l.avro"
    out = EncryptingFileIO(PyArrowFileIO(), lambda _: written)
    lists, _ = write_manifest_list(
        out, place, manager.new_file_key(), old,  # type: ignore[arg-type]
        snapshot_id=7, parent_snapshot_id=None, sequence_number=9, first_row_id=1000,
    )  # fmt: skip
    assert lists is not None
    written = lists
    snapshot = metadata.snapshots[-1].model_copy(update={"manifest_list": place})
    kept = snapshot.manifests(out)
    decode_cache.clear()
    read = snapshot.manifests(out)
    assert [list(map(str, line._data)) for line in kept] == [list(map(str, line._data)) for line in read]
    kept[0].first_row_id = 5  # type: ignore[attr-defined]
    assert snapshot.manifests(out)[0].first_row_id == read[0].first_row_id, "each reader gets lines of its own"  # type: ignore[attr-defined]


def test_delete_manifests_get_no_row_ids(tmp_path: Path) -> None:
    metadata, io, _ = opened("mor_deletes")
    for snapshot in metadata.snapshots:
        for manifest in snapshot.manifests(io):
            assert isinstance(manifest, ManifestFileV3)
            assert (manifest.first_row_id is None) is (manifest.content == ManifestContent.DELETES)


# -- failing closed ---------------------------------------------------------------------------


def test_a_snapshot_without_a_key_is_refused_in_an_encrypted_table() -> None:
    metadata, io, _ = opened("basic128")
    bare = metadata.snapshots[0].model_copy(update={"key_id": None})
    with pytest.raises(PlaintextFileError, match=r"no key-id.*allow-plaintext-files"):
        bare.manifests(io)


def test_a_snapshot_with_a_key_is_refused_without_encryption() -> None:
    metadata, _, _ = opened("basic128")
    with pytest.raises(PlaintextFileError, match="Cannot decrypt manifest list"):
        metadata.snapshots[0].manifests(PyArrowFileIO())


def test_an_encrypted_manifest_without_a_key_is_refused() -> None:
    metadata, io, _ = opened("basic128")
    manifest = metadata.snapshots[0].manifests(io)[0]
    bare = ManifestFileV3(*[*manifest._data[:14], None, *manifest._data[15:]])
    with pytest.raises(KeyNotFoundError, match="keeps no key for it"):
        bare.fetch_manifest_entry(io)


def test_no_file_of_the_table_is_written_without_a_key(tmp_path: Path) -> None:
    _, io, _ = opened("basic128")
    for name in ("m.avro", "d.parquet", "v.puffin", "snap-1.avro", "x"):
        with pytest.raises(PlaintextFileError):
            io.new_output(f"file://{tmp_path}/{name}").create()
    assert list(tmp_path.iterdir()) == []
    io.new_output(f"file://{tmp_path}/v1.metadata.json").create().close()


def test_errors_name_the_file() -> None:
    metadata, io, manager = opened("basic128")
    manifest = metadata.snapshots[0].manifests(io)[0]
    assert isinstance(manifest.manifest_path, KeyedLocation)
    keys = manifest.manifest_path.keys
    other = manager.new_file_key().with_length(keys.file_length or 0)
    for wrong, error in ((other, AuthenticationError), (keys.with_length(99_999_999), TruncatedError)):
        data = [*manifest._data[:14], wrong.encode(), *manifest._data[15:]]
        with pytest.raises(error, match=str(manifest.manifest_path)):
            ManifestFileV3(*data).fetch_manifest_entry(io)


def test_bytes_that_are_no_avro_are_a_format_error(tmp_path: Path) -> None:
    _, io, manager = opened("basic128")
    output = io.new_output(KeyedLocation(f"file://{tmp_path}/x.avro", manager.new_file_key().encode()))
    with output.create() as stream:
        stream.write(b"not Avro at all")
    metadata, sealed, _ = opened("basic128")
    data = [*metadata.snapshots[0].manifests(sealed)[0]._data]
    data[0], data[14] = output.location, output.key_metadata.encode()  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match=r"x\.avro"):
        ManifestFileV3(*data).fetch_manifest_entry(io)


def test_neither_files_nor_manifests_print_their_keys() -> None:
    metadata, io, _ = opened("basic128")
    manifest = metadata.snapshots[0].manifests(io)[0]
    entry = manifest.fetch_manifest_entry(io)[0]
    for thing in (manifest, entry, entry.data_file, manifest.manifest_path, entry.data_file.file_path):
        for secret in (manifest.key_metadata, entry.data_file.key_metadata):
            assert secret is not None
            for shown in (repr(thing), str(thing), f"{thing}"):
                assert repr(secret)[4:20] not in shown
                assert secret.hex() not in shown
