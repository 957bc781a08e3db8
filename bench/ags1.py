"""AGS1 streams against the bare cipher and the JDK's cipher; memory and reads of a stream."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.figures import Figure, best
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.ags1_writer import Ags1Writer
from sealberg.files.seal import seal_bytes
from sealberg.format.ags1 import BLOCK_SIZE, HEADER, STORED_BLOCK_SIZE
from sealberg.keys.file_key import new_file_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.format.aes_gcm import Bytes

BLOCKS = 256
STEP = 8 * BLOCK_SIZE


def figures(rounds: int) -> Iterator[Figure]:
    plain = os.urandom(BLOCK_SIZE) * BLOCKS
    sealed, keys = seal_bytes(plain, new_file_key(16))
    gcm, source, out = AESGCM(keys.encryption_key), memoryview(sealed), memoryview(bytearray(STEP))
    scratch = memoryview(bytearray(STORED_BLOCK_SIZE))

    def raw_open(first: int = 0, stop: int = BLOCKS, target: memoryview = out) -> None:
        for i in range(first, stop):
            block = source[len(HEADER) + i * STORED_BLOCK_SIZE :][:STORED_BLOCK_SIZE]
            gcm.decrypt_into(block[:12], block[12:], _aad(keys.aad_prefix, i), target[:BLOCK_SIZE])

    def raw_open_on_two() -> None:
        halves = [memoryview(bytearray(BLOCK_SIZE)) for _ in range(2)]
        threads = [
            threading.Thread(target=raw_open, args=(i * BLOCKS // 2, (i + 1) * BLOCKS // 2, halves[i]))
            for i in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def raw_seal() -> None:
        view = memoryview(plain)
        for i in range(BLOCKS):
            block = view[i * BLOCK_SIZE : (i + 1) * BLOCK_SIZE]
            gcm.encrypt_into(os.urandom(12), block, _aad(keys.aad_prefix, i), scratch[12:])

    def ours_open(threads: int) -> None:
        with Ags1Reader(sealed, keys, threads=threads) as reader:
            while reader.readinto(out):
                pass

    def ours_seal(threads: int) -> None:
        view = memoryview(plain)
        with Ags1Writer(_Void(), keys, threads=threads) as writer:
            for at in range(0, len(view), STEP):
                writer.write(view[at : at + STEP])

    spent = best(
        {
            "raw open": raw_open,
            "open": lambda: ours_open(1),
            "raw open on two": raw_open_on_two,
            "open on two": lambda: ours_open(2),
            "raw seal": raw_seal,
            "seal": lambda: ours_seal(1),
            "seal on two": lambda: ours_seal(2),
        },
        rounds,
    )
    speed = {name: len(plain) / seconds / 1e9 for name, seconds in spent.items()}
    yield Figure(
        "AGS1 open, one thread, over raw decrypt_into",
        spent["raw open"] / spent["open"],
        0.90,
        True,
        note=f"{speed['open']:.2f} GB/s",
    )
    yield Figure(
        "AGS1 open, two threads, over one",
        spent["open"] / spent["open on two"],
        1.7,
        True,
        note=f"{speed['open on two']:.2f} GB/s; the bare cipher on two threads: "
        f"{spent['raw open'] / spent['raw open on two']:.2f}",
    )
    yield Figure(
        "AGS1 seal, one thread, over raw encrypt_into",
        spent["raw seal"] / spent["seal"],
        0.90,
        True,
        note=f"{speed['seal']:.2f} GB/s; two threads {speed['seal on two']:.2f}",
    )
    yield from _against_java(rounds)
    yield _peak_memory()
    yield _bytes_per_random_read()


def _aad(prefix: bytes | None, index: int) -> bytes:
    return (prefix or b"") + index.to_bytes(4, "little")


class _Void:
    """A sink that costs nothing."""

    def write(self, data: Bytes) -> int:
        return len(data)

    def close(self) -> None: ...


def _against_java(rounds: int) -> Iterator[Figure]:
    """The JDK's AES/GCM in a warm Java loop on the same work, in turns with ours."""
    if not (shutil.which("javac") and shutil.which("java")):
        print("no JDK on PATH: the comparison with Java is left out")
        return
    with tempfile.TemporaryDirectory() as name:
        subprocess.run(["javac", "-d", name, Path(__file__).with_name("Ags1Loop.java")], check=True)
        command = ["java", "-Xmx1g", "-cp", name, "Ags1Loop", str(BLOCKS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
            assert java.stdin is not None
            assert java.stdout is not None

            def ask(verb: str) -> float:
                print(verb, file=java.stdin, flush=True)
                return float(java.stdout.readline())  # type: ignore[union-attr]

            for _ in range(10):
                ask("open"), ask("seal")  # until the JIT has compiled the loop
            ours, theirs = {"open": 1e9, "seal": 1e9}, {"open": 1e9, "seal": 1e9}
            plain = os.urandom(BLOCK_SIZE) * BLOCKS
            sealed, keys = seal_bytes(plain)
            out = bytearray(STEP)

            def open_all() -> None:
                with Ags1Reader(sealed, keys, threads=1) as reader:
                    while reader.readinto(out):
                        pass

            def seal_all() -> None:
                with Ags1Writer(_Void(), keys, threads=1) as writer:
                    writer.write(plain)

            for _ in range(rounds):
                for verb, act in (("open", open_all), ("seal", seal_all)):
                    theirs[verb] = min(theirs[verb], ask(verb))
                    ours[verb] = min(ours[verb], best({verb: act}, 1)[verb])
            java.stdin.close()
    for verb in ("open", "seal"):
        yield Figure(
            f"AGS1 {verb}, one thread, over the JDK's cipher in a warm loop",
            theirs[verb] / ours[verb],
            2.0,
            True,
            note=f"Java {len(plain) / theirs[verb] / 1e9:.2f} GB/s",
        )


def _peak_memory() -> Figure:
    """4 GiB through a pipe from a writer to a reader, in a separate process."""
    done = subprocess.run([sys.executable, "-m", "bench.stream_memory"], capture_output=True, text=True, check=True)
    return Figure(
        "peak memory above the interpreter's, 4 GiB through seal and open", float(done.stdout), 64, False, "MiB"
    )


class _Counting:
    """A source that counts reads."""

    def __init__(self, sealed: bytes) -> None:
        self._view = memoryview(sealed)
        self.size = len(sealed)
        self.fetched = 0

    def read_at(self, offset: int, length: int, scratch: memoryview) -> memoryview:  # noqa: ARG002
        self.fetched += length
        return self._view[offset : offset + length]

    def close(self) -> None: ...


def _bytes_per_random_read() -> Figure:
    sealed, keys = seal_bytes(bytes(1 << 30))
    source, dice, worst = _Counting(sealed), random.Random(1), 0
    for _ in range(500):
        at = dice.randrange(1024) * BLOCK_SIZE + dice.randrange(BLOCK_SIZE - 4096)
        with Ags1Reader(source, keys) as reader:  # a new reader each time, so that the header is read too
            source.fetched = 0
            reader.read_at(at, 4096)
            worst = max(worst, source.fetched)
    return Figure(
        "most bytes fetched for a random 4 KiB read from 1 GiB, in blocks and a header",
        (worst - len(HEADER)) / STORED_BLOCK_SIZE,
        1,
        False,
        note=f"{worst} bytes",
    )
