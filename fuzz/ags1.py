"""Streams that somebody altered into Ags1Reader.

    python fuzz/ags1.py -max_total_time=300

The input is not a stream but a plan: a plaintext, a list of changes to its stream (flip, cut, swap,
repeat, insert, a block of another file under the same key, another header), and a list of reads.
Random bytes would only ever fail the first check; planned ones get behind it. Blocks are made
16 bytes small, so that streams of many blocks fit into a small input.

Only IntegrityError may come out, and of plaintext only what was sealed, at its own place. If all
of it comes out under a trusted length, the stream was not altered.
"""

from __future__ import annotations

import sys

import atheris
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BLOCK = 16

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import IntegrityError
    from sealberg.format import ags1

    # Before the reader imports them.
    ags1.BLOCK_SIZE = BLOCK  # type: ignore[misc]
    ags1.STORED_BLOCK_SIZE = BLOCK + 28  # type: ignore[misc]
    ags1.HEADER = b"AGS1" + BLOCK.to_bytes(4, "little")  # type: ignore[misc]
    from sealberg.files.ags1_reader import Ags1Reader
    from sealberg.format.key_metadata import KeyMetadata

KEYS = (bytes(range(16)), bytes(range(24)), bytes(range(32)))
PLAIN = bytes(i * 7 % 251 for i in range(40 * BLOCK))


def seal(key: bytes, aad_prefix: bytes, plain: bytes, nonces: int) -> list[bytes]:
    """Header and blocks; `nonces` keeps those of two streams apart."""
    pieces = [b"AGS1" + BLOCK.to_bytes(4, "little")]
    for index, start in enumerate(range(0, max(1, len(plain)), BLOCK)):
        nonce = (nonces + index).to_bytes(12, "big")
        aad = aad_prefix + index.to_bytes(4, "little")
        pieces.append(nonce + AESGCM(key).encrypt(nonce, plain[start : start + BLOCK], aad))
    return pieces


class Unsized:
    """A source that does not know its length, as an object in a bucket does not."""

    size = None

    def __init__(self, stream: bytes) -> None:
        self.stream = stream

    def read_at(self, offset: int, length: int, scratch: memoryview) -> bytes:  # noqa: ARG002
        return self.stream[offset : offset + length]

    def close(self) -> None:
        pass


def alter(plan: atheris.FuzzedDataProvider, pieces: list[bytes], foreign: list[bytes]) -> bytes:
    """Up to four changes, each of whole pieces or inside one."""
    pieces = list(pieces)
    for _ in range(plan.ConsumeIntInRange(0, 4)):
        change = plan.ConsumeIntInRange(0, 7)
        at = plan.ConsumeIntInRange(0, max(0, len(pieces) - 1))
        other = plan.ConsumeIntInRange(0, max(0, len(pieces) - 1))
        if not pieces:
            break
        piece = bytearray(pieces[at])
        if change == 0 and piece:
            piece[plan.ConsumeIntInRange(0, len(piece) - 1)] ^= 1 << plan.ConsumeIntInRange(0, 7)
            pieces[at] = bytes(piece)
        elif change == 1:
            pieces[at] = bytes(piece[: plan.ConsumeIntInRange(0, len(piece))])
        elif change == 2:
            pieces[at], pieces[other] = pieces[other], pieces[at]
        elif change == 3:
            pieces.insert(other, pieces[at])
        elif change == 4:
            del pieces[at]
        elif change == 5:
            pieces.insert(at, plan.ConsumeBytes(plan.ConsumeIntInRange(0, 60)))
        elif change == 6:
            pieces[at] = foreign[min(at, len(foreign) - 1)]
        else:
            del pieces[at:]
    return b"".join(pieces)


def read_a_bit(plan: atheris.FuzzedDataProvider, reader: Ags1Reader, plain: bytes) -> None:
    """One read of some kind; whatever it gives must be the plaintext of that place."""
    at = reader.seek(plan.ConsumeIntInRange(0, len(plain) + 20))
    count = plan.ConsumeIntInRange(0, len(plain) + 20)
    way = plan.ConsumeIntInRange(0, 3)
    found = bytearray()
    try:
        if way == 0:
            found += reader.read_at(at, count)
        elif way == 1:
            found += reader.read(count)
        elif way == 2:
            buffer = bytearray(count)
            found += buffer[: reader.readinto(buffer)]
        else:
            for window in reader.windows():
                found += window
    except IntegrityError:
        # What came out stays out, and the position behind it; the read that failed moved nothing.
        assert reader.tell() == at + len(found), "a read that failed moved the position"
    assert found == plain[at : at + len(found)], "other plaintext than was sealed here"


def read(data: bytes) -> None:
    plan = atheris.FuzzedDataProvider(data)
    key = plan.PickValueInList(list(KEYS))
    aad_prefix = plan.ConsumeBytes(plan.ConsumeIntInRange(0, 16))
    plain = PLAIN[: plan.ConsumeIntInRange(0, 8 * BLOCK)]
    pieces = seal(key, aad_prefix, plain, 0)
    whole = b"".join(pieces)
    stream = alter(plan, pieces, seal(key, aad_prefix + b"x", plain, 1000))
    trusted = not plan.ConsumeBool() or plan.ConsumeBool()
    key_metadata = KeyMetadata(key, aad_prefix, len(whole) if trusted else None)
    source = Unsized(stream) if trusted and plan.ConsumeBool() else stream
    threads = plan.ConsumeIntInRange(1, 3)
    try:
        with Ags1Reader(source, key_metadata, threads=threads, allow_missing_length=not trusted) as reader:
            for _ in range(plan.ConsumeIntInRange(0, 4)):
                read_a_bit(plan, reader, plain)
            reader.seek(0)
            found = reader.read()
    except IntegrityError:
        assert stream != whole, "a stream that nobody altered was refused"
        return
    if trusted:
        assert stream == whole, "an altered stream opened"
    # Without a trusted length whole blocks may be missing at the end, and nothing else.
    assert plain.startswith(found), "other bytes were read than was sealed here"
    assert found == plain or len(found) % BLOCK == 0


def main() -> None:
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
