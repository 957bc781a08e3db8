"""The demonstration behind `make demo`: seal a large file, read ranges of it, tamper with it, see the refusal."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from sealberg.errors import IntegrityError
from sealberg.files.reader import SealedReader
from sealberg.files.whole import open_file, seal_file

MIB = 1 << 20
SIZE = 256 * MIB


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sealberg-demo-") as name:
        folder = Path(name)
        plain, sealed = folder / "plain.bin", folder / "sealed.ags1"
        piece = os.urandom(MIB)
        with plain.open("wb") as out:
            for i in range(SIZE // MIB):
                out.write(i.to_bytes(8, "big") + piece[8:])

        began = time.perf_counter()
        keys = seal_file(plain, sealed)
        say(f"sealed {SIZE // MIB} MiB in {time.perf_counter() - began:.2f} s; it begins with {head(sealed)!r}")
        say(f"what opens it, and is itself sealed in the parent file: {keys}")

        with SealedReader(sealed, keys) as stream:
            for offset in (0, 100 * MIB + 12_345, SIZE - 10):
                expected = range_of(plain, offset, 4096)
                assert stream.read_at(offset, 4096) == expected
                say(f"read {len(expected):>4} bytes at {offset:>9}: as in the original")

        began = time.perf_counter()
        open_file(sealed, folder / "again.bin", keys)
        assert (folder / "again.bin").stat().st_size == SIZE
        say(f"opened all of it in {time.perf_counter() - began:.2f} s")

        say("now somebody with access to the storage ...")
        flip(sealed, 57 * MIB)
        with SealedReader(sealed, keys) as stream:
            assert stream.read_at(0, 100) == range_of(plain, 0, 100)
            refused("changes one bit", lambda: stream.read_at(56 * MIB, MIB * 2))
        flip(sealed, 57 * MIB)
        os.truncate(sealed, 8 + 200 * (MIB + 28))
        refused("cuts off the last 56 blocks", lambda: SealedReader(sealed, keys))


def refused(what: str, act: object) -> None:
    try:
        act()  # type: ignore[operator]
    except IntegrityError as error:
        say(f"  {what}: {type(error).__name__}: {error}")
    else:
        raise SystemExit(f"{what}: not noticed")


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def range_of(path: Path, offset: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    main()
