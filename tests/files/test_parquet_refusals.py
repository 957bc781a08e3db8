"""Encrypted Parquet files that are refused: altered, truncated, swapped, or under another key."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

from files.test_parquet import ROWS, both_ways, by_reader, field, sample, write
from kit.tables.parquet_parts import page_indexes
from kit.tables.streams import flip
from sealberg.errors import (
    AuthenticationError,
    BadMagicError,
    FormatError,
    IntegrityError,
    TrailingBytesError,
    TruncatedError,
)
from sealberg.files.parquet.reader import EncryptedParquetReader, decryption_properties, translating
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from sealberg.format.key_metadata import KeyMetadata

    Read: TypeAlias = Callable[[Any, KeyMetadata], pa.Table]


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.slow
@both_ways
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_altered_byte_is_refused(read: Read, mask: int) -> None:
    stored, keys = sample()
    with EncryptedParquetReader(stored, keys) as reader:
        unread = page_indexes(stored, reader.metadata)
    assert len(unread) > 100
    for at in range(len(stored)):
        if at in unread:
            assert read(flip(stored, at, mask), keys).equals(ROWS)
            continue
        with pytest.raises(IntegrityError):
            read(flip(stored, at, mask), keys)
            pytest.fail(f"byte {at} of {len(stored)} was altered unseen")


@both_ways
def test_every_cut_is_refused_even_without_a_trusted_length(read: Read) -> None:
    stored, keys = sample()
    unknown = replace(keys, file_length=None)
    assert read(stored, unknown).equals(ROWS)
    for length in range(len(stored)):
        with pytest.raises(IntegrityError):
            read(stored[:length], unknown)


@both_ways
def test_a_length_other_than_the_trusted_one_is_named(read: Read) -> None:
    stored, keys = sample()
    with pytest.raises(TruncatedError, match=f"{len(stored) - 1} bytes, its trusted length is {len(stored)}"):
        read(stored[:-1], keys)
    with pytest.raises(TrailingBytesError):
        read(stored + b"\0", keys)


@both_ways
@pytest.mark.parametrize(
    "change",
    [
        {"encryption_key": os.urandom(16)},
        {"encryption_key": os.urandom(32)},
        {"aad_prefix": os.urandom(16)},
        {"aad_prefix": None},
    ],
    ids=["key", "longer key", "prefix", "no prefix"],
)
def test_another_key_or_prefix_fails_authentication(read: Read, change: dict[str, Any]) -> None:
    stored, keys = sample()
    wrong = replace(keys, **change)
    with pytest.raises(AuthenticationError) as refused:
        read(stored, wrong)
    assert keys.encryption_key.hex() not in str(refused.value)


@both_ways
def test_a_plaintext_file_in_its_place_is_refused(read: Read) -> None:
    plain = io.BytesIO()
    pq.write_table(ROWS, plain)
    with pytest.raises(BadMagicError, match="plaintext"):
        read(plain.getvalue(), new_file_key())
    # Also if its magics lie.
    disguised = b"PARE" + plain.getvalue()[4:-4] + b"PARE"
    with pytest.raises(IntegrityError):
        read(disguised, new_file_key())


@both_ways
def test_one_file_in_the_place_of_another_is_refused(read: Read) -> None:
    keys = new_file_key()
    one, _ = write(keys=keys)
    _, other = write(keys=replace(keys, aad_prefix=os.urandom(16)))
    with pytest.raises(AuthenticationError):
        read(one, replace(other.key_metadata, file_length=len(one)))


def unauthenticated() -> tuple[bytes, KeyMetadata]:
    """A file whose pages are in counter mode, with a page altered."""
    keys, sink = new_file_key(), io.BytesIO()
    mode = pe.create_encryption_properties(
        keys.encryption_key, aad_prefix=keys.aad_prefix, store_aad_prefix=False, encryption_algorithm="AES_GCM_CTR_V1"
    )
    table = pa.table({"id": range(1000)}, schema=pa.schema([field("id", pa.int64(), 1)]))
    pq.write_table(table, sink, encryption_properties=mode, compression="none", use_dictionary=False)
    return flip(sink.getvalue(), 4000, 0xFF), keys


@both_ways
def test_pages_without_authentication_are_refused(read: Read) -> None:
    stored, keys = unauthenticated()
    trusting = pq.read_table(io.BytesIO(stored), decryption_properties=decryption_properties(keys))
    assert trusting.column("id").to_pylist() != list(range(1000)), "pyarrow alone believes it"
    with pytest.raises(FormatError, match="without authentication"):
        read(stored, keys)


class TwoFaced(io.BytesIO):
    """Storage that tells the truth about a footer once."""

    def __init__(self, stored: bytes) -> None:
        super().__init__(stored)
        self.length = int.from_bytes(stored[-8:-4], "little") + 8
        self.size = len(stored)
        self.answers = 0

    def read(self, size: int | None = -1, /) -> bytes:
        at = self.tell()
        found = super().read(size)
        algorithm = self.size - self.length + 1
        if at <= algorithm < at + len(found):
            self.answers += 1
            if self.answers > 1:
                return flip(found, algorithm - at, 0x1C ^ 0x2C)  # AES_GCM_CTR_V1
        return found


def test_a_footer_that_changes_between_reads_deceives_nobody() -> None:
    stored, keys = sample()
    two_faced = TwoFaced(stored)
    assert by_reader(two_faced, keys).equals(ROWS)
    assert two_faced.answers == 1, "the footer was asked for once"


@pytest.mark.parametrize(
    "footer",
    [
        b"",
        b"\x1c",
        b"\x1c\x1c",
        b"\x1c\x1c\x28\x08" + bytes(8) + b"\x11\x00",
        b"\x1c\x1c\x28\x88" + bytes(8) + b"\x11\x00\x00\x00",
        b"\x1c\x1c\x28\x08" + bytes(8) + b"\x11\x00\x1c\x00\x00\x00",  # a second algorithm in the union
        b"\x1c\x1c\x28\x08" + bytes(8) + b"\x11\x41\x00\x00\x00",  # a fourth field
        b"\x0c\x02\x0c\x04\x28\x08" + bytes(8) + b"\x11\x00\x00\x00",  # ids in the long form
    ],
)
def test_a_footer_that_begins_otherwise_is_refused(footer: bytes) -> None:
    stored = b"PARE" + footer + len(footer).to_bytes(4, "little") + b"PARE"
    with pytest.raises(FormatError):
        EncryptedParquetReader(stored, new_file_key())


def test_errors_that_are_not_about_the_bytes_keep_their_type(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EncryptedParquetReader(tmp_path / "none.parquet", new_file_key())
    with pytest.raises(OSError, match=r"^network down$"), translating("x"):
        raise OSError("network down")
    with pytest.raises(pa.ArrowInvalid), translating("x"):
        pa.array(["x"]).cast(pa.int64())


def test_damage_shows_when_its_row_group_is_read() -> None:
    stored, written = write(row_group_rows=10)
    second = written.metadata.row_group(1).column(0).data_page_offset
    with EncryptedParquetReader(flip(stored, second + 20), written.key_metadata, where="s3://a/b") as reader:
        assert sum(batch.num_rows for batch in reader.batches(row_groups=[0])) == 10
        with pytest.raises(AuthenticationError, match=r"^s3://a/b: "):
            list(reader.batches(row_groups=[1]))
