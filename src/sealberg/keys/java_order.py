"""The order in which Iceberg Java meets the keys of a table, and an id that comes first in it.

    ids ──String.hashCode──> h ^ (h >>> 16) ──lowest bits──> bucket of a java.util.HashMap, met from 0 up

Of several KEKs that may still seal keys, sealberg uses the newest. Java uses the KEK that it meets first, and meets
keys in the order of a HashMap: by chance. The id of a key is random anyway, so a rotation draws ids until one comes
before the ids of the KEKs that it replaces: in a map of the table's present size first, then in the sizes to which the
map will grow. Then Java, too, seals under the new KEK. This is a preference and not a promise: an id in bucket 0 cannot
be preceded. Java reads the table with any id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAWS: Final = 2000
# A map of 16 buckets holds 12 keys; one of 65,536 buckets holds 49,152.
MASKS: Final = tuple((1 << bits) - 1 for bits in range(4, 17))


def spread(key_id: str) -> int:
    """What HashMap makes of the hash of a string."""
    found = 0
    for character in key_id.encode() if key_id.isascii() else _units(key_id):
        found = (31 * found + character) & 0xFFFFFFFF
    return found ^ (found >> 16)


def first_in_java(draw: Callable[[], str], others: Sequence[str], keys: int = 0) -> str:
    """An id that Java meets before the others; any id if there are no others.

    Args:
        keys: how many keys the table has, those that are not KEKs included.
    """
    if not others:
        return draw()
    masks = [mask for mask in MASKS if keys < 3 * (mask + 1) // 4] or MASKS[-1:]
    bounds = [min(spread(other) & mask for other in others) for mask in masks]

    drawn = [draw() for _ in range(DRAWS)]
    hashed = _spread_all(drawn)
    rank = np.zeros(DRAWS, np.int64)
    for mask, bound in zip(masks, bounds, strict=True):
        rank = 2 * rank + (hashed & mask < bound)
    # Of two ids that come first equally long, the later one leaves more room for the next rotation.
    return drawn[int(np.argmax(rank * (masks[0] + 1) + (hashed & masks[0])))]


def _spread_all(key_ids: Sequence[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """`spread` of each id."""
    if not all(key_id.isascii() and len(key_id) == len(key_ids[0]) for key_id in key_ids):
        return np.array([spread(key_id) for key_id in key_ids], np.int64)
    letters = np.frombuffer("".join(key_ids).encode(), np.uint8).reshape(len(key_ids), -1)
    found = np.zeros(len(key_ids), np.uint32)
    for column in letters.T:
        found = found * np.uint32(31) + column  # modulo 2^32, as in Java
    return (found ^ (found >> np.uint32(16))).astype(np.int64)


def _units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2)]
