"""Every file of every table that Iceberg Java wrote opens: list key, list, manifests, data, deletes.

Avro is decoded by fastavro and Parquet by pyarrow, so only the keys and the streams are ours here.
"""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from kit.tables import golden
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import UnitestKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

STATUS_DELETED = 2


def avro(stream: Any) -> list[Any]:
    return list(fastavro.reader(stream))


def records(location: str, key_metadata: KeyMetadata) -> list[dict[str, Any]]:
    with Ags1Reader(golden.local(location), key_metadata) as stream:
        return avro(stream)


def rows_of(entry: dict[str, Any]) -> int:
    """Open one data or delete file to its last byte, and count what Java says it holds."""
    data_file = entry["data_file"]
    blob = data_file["key_metadata"]
    keys = KeyMetadata.decode(blob)
    assert keys.encode() == blob, "written again as Java wrote it"
    path = golden.local(data_file["file_path"])
    assert keys.file_length == path.stat().st_size == data_file["file_size_in_bytes"]
    if data_file["file_format"].upper() == "PARQUET":
        decryption = pe.create_decryption_properties(keys.encryption_key, aad_prefix=keys.aad_prefix)
        return int(pq.read_table(path, decryption_properties=decryption).num_rows)
    with Ags1Reader(path, keys) as stream:
        if data_file["file_format"].upper() == "AVRO":
            return len(avro(stream))
        assert stream.read(4) == b"PFA1"
        blob = stream.read_at(data_file["content_offset"], data_file["content_size_in_bytes"])
        assert blob[4:8] == bytes.fromhex("d1d33964"), "a deletion vector begins with its length and magic"
        assert stream.read()[-4:] == b"PFA1"
    return int(data_file["record_count"])


@pytest.mark.parametrize("table", golden.TABLES)
def test_every_file_of_a_java_table_opens(table: str) -> None:
    metadata = golden.metadata(table)
    ring = Keyring.from_json(metadata["encryption-keys"])
    expected = json.loads((golden.root() / "expected" / table / "table.json").read_text())
    assert expected, "the archive says what to expect"
    settings = EncryptionSettings.from_properties(f"db.{table}", metadata["properties"], {})
    keys = EncryptionManager(settings, kms=UnitestKms.from_properties({}))
    opened = 0
    for snapshot in metadata["snapshots"]:
        for manifest in records(snapshot["manifest-list"], keys.open_list_key(ring, snapshot["key-id"])):
            for entry in records(manifest["manifest_path"], KeyMetadata.decode(manifest["key_metadata"])):
                if entry["status"] != STATUS_DELETED:
                    assert rows_of(entry) == entry["data_file"]["record_count"]
                    opened += 1
    assert opened >= len(metadata["snapshots"])
