"""Key metadata of many files at once.

    01 | 20 | 16 bytes of key | 02 | 20 | 16 bytes of AAD prefix | 02 | file length, varint      as Java writes it

Blobs of one length and one layout are cut as a matrix of bytes. Blobs of any other layout are decoded one by one, by
`KeyMetadata`, with its errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sealberg.format.aes_gcm import KEY_LENGTHS
from sealberg.format.key_metadata import VERSION, KeyMetadata

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SOME: Final = 2  # the branch of a value that is not null
_MAX_VARINT: Final = 9


class KeyColumns(NamedTuple):
    """Keys, AAD prefixes and file lengths; None where a blob is null or has none."""

    keys: list[bytes | None]
    aad_prefixes: list[bytes | None]
    file_lengths: list[int | None]


def decode_keys(blobs: pa.BinaryArray) -> KeyColumns:
    """The parts of each blob. No key is shown in an error."""
    count = len(blobs)
    found = KeyColumns([None] * count, [None] * count, [None] * count)
    lengths = pc.binary_length(blobs).fill_null(-1).to_numpy(zero_copy_only=False)
    for width in np.unique(lengths).tolist():
        if width < 0:
            continue
        rows = np.flatnonzero(lengths == width)
        chosen = blobs if len(rows) == count else blobs.take(pa.array(rows))
        parts = _regular(chosen, width) or _one_by_one(chosen)
        if len(rows) == count:
            return parts
        for row, key, prefix, length in zip(rows.tolist(), *parts, strict=True):
            found.keys[row], found.aad_prefixes[row], found.file_lengths[row] = key, prefix, length
    return found


def _regular(blobs: pa.BinaryArray, width: int) -> KeyColumns | None:
    matrix = _matrix(blobs, width)
    if width < 4 or matrix[0, 1] % 2 or matrix[0, 1] // 2 not in KEY_LENGTHS:
        return None
    key = int(matrix[0, 1]) // 2
    aad_at = key + 4
    if width < aad_at or matrix[0, aad_at - 1] % 2 or matrix[0, aad_at - 1] >= 0x80:
        return None
    aad = int(matrix[0, aad_at - 1]) // 2
    length_at = aad_at + aad + 1
    if not 0 < width - length_at <= _MAX_VARINT:
        return None
    fixed = {0: VERSION, 1: 2 * key, key + 2: _SOME, key + 3: 2 * aad, length_at - 1: _SOME}
    if not all((matrix[:, at] == value).all() for at, value in fixed.items()):
        return None
    file_lengths = _varints(matrix[:, length_at:])
    if file_lengths is None:
        return None
    return KeyColumns(_cut(matrix, 2, key), _cut(matrix, aad_at, aad), file_lengths)


def _matrix(blobs: pa.BinaryArray, width: int) -> NDArray[np.uint8]:
    _, offsets, data = blobs.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, 4 * blobs.offset)[0])
    return np.frombuffer(data, np.uint8, len(blobs) * width, first).reshape(len(blobs), width)


def _varints(matrix: NDArray[np.uint8]) -> list[int | None] | None:
    """Varints that take the whole width; None if one of them does not, or is negative."""
    width = matrix.shape[1]
    if not (matrix[:, :-1] >= 0x80).all() or not (matrix[:, -1] < 0x80).all():
        return None
    shifts = np.arange(0, 7 * width, 7, dtype=np.uint64)
    zigzag = ((matrix & 0x7F).astype(np.uint64) << shifts).sum(axis=1, dtype=np.uint64)
    if (zigzag & np.uint64(1)).any():
        return None
    found: list[int | None] = (zigzag >> np.uint64(1)).tolist()
    return found


def _cut(matrix: NDArray[np.uint8], start: int, width: int) -> list[bytes | None]:
    if width == 0:
        return [b""] * len(matrix)
    data = pa.py_buffer(np.ascontiguousarray(matrix[:, start : start + width]))
    found: list[bytes | None] = pa.Array.from_buffers(pa.binary(width), len(matrix), [None, data]).to_pylist()
    return found


def _one_by_one(blobs: pa.BinaryArray) -> KeyColumns:
    decoded = [KeyMetadata.decode(blob) for blob in blobs.to_pylist()]
    return KeyColumns(
        [each.encryption_key for each in decoded],
        [each.aad_prefix for each in decoded],
        [each.file_length for each in decoded],
    )
