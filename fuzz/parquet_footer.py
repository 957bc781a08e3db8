"""The two parsers of the clear part of an encrypted Parquet footer, Python's and Java's, against each other.

    python fuzz/parquet_footer.py -max_total_time=600

The input is the end of a file, from FileCryptoMetaData to the magic; the rest of the file is before it. Both must
accept it, with the same length, or both must refuse it: a file that one reader takes for AES_GCM_V1 and the other for
something else is a hole. Parquet's own Thrift reader is asked too: what both accept must be AES_GCM_V1 to it.

Java runs beside this process and answers one input after the other.
"""

from __future__ import annotations

import atexit
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris
import pyarrow as pa

with atheris.instrument_imports(include=["sealberg"]):
    from sealberg.errors import SealbergError
    from sealberg.files.parquet.reader import checked_footer, read_tail
    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.spark.jar import find_jar

TOP = Path(__file__).parent.parent
CORPUS = Path(__file__).parent / "corpus" / "parquet_footer"
KEY = bytes(16)
BODY = b"PARE" + bytes(60)


def start_java() -> subprocess.Popen[bytes]:
    import pyspark

    classpath = f"{find_jar()}:{Path(pyspark.__file__).parent / 'jars'}/*"
    classes = tempfile.mkdtemp()
    source = TOP / "tests" / "java" / "FooterCheck.java"
    subprocess.run(["javac", "-nowarn", "-cp", classpath, "-d", classes, str(source)], check=True)  # noqa: S603, S607
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{classes}:{classpath}", "sealberg.crypto.FooterCheck"]
    java = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
    atexit.register(java.kill)
    return java


JAVA = start_java()


def by_java(file: bytes) -> tuple[str, int, str]:
    """(refused or accepted, length of the footer, the algorithm by Parquet's own reader) or a crash."""
    assert JAVA.stdin is not None
    assert JAVA.stdout is not None
    JAVA.stdin.write(struct.pack(">i", len(file)) + file)
    JAVA.stdin.flush()
    verdict, length, size = struct.unpack(">cii", JAVA.stdout.read(9))
    return verdict.decode(), length, JAVA.stdout.read(size).decode()


def by_python(file: bytes) -> tuple[str, int]:
    try:
        stream = pa.BufferReader(file)
        tail = read_tail(stream, KeyMetadata(KEY, None, len(file)), "file")
        return "a", len(checked_footer(stream, tail, "file"))
    except SealbergError:
        return "r", 0


def compare(footer: bytes) -> None:
    file = BODY + footer
    verdict, length, algorithm = by_java(file)
    found, its_length = by_python(file)
    assert verdict in {"a", "r"}, f"Java failed: {algorithm}"
    assert (found, its_length) == (verdict, length), f"Python {found} {its_length}, Java {verdict} {length}: {footer!r}"
    if found == "a":
        assert algorithm == "AES__GCM__V1", f"accepted, and to Parquet's reader it is {algorithm}: {footer!r}"


def main() -> None:
    compare(b"")  # waits for Java
    # New inputs go to a folder that is thrown away; the corpus of the repository stays small.
    with tempfile.TemporaryDirectory() as found:
        atheris.Setup([*sys.argv, found, str(CORPUS)], compare)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
