"""Small files that become large, or deep: each is a named error, within a bound on memory that was measured.

The bound of each kind is what a child process may grow by. An attacker has no key, so encrypted files cannot be made
into bombs; metadata.json, plain tables and answers of servers can.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pyarrow as pa
import pytest

import sealberg
from sealberg.errors import ConfigError, FormatError
from sealberg.table.metadata_file import MAX_BYTES, MAX_MEMBERS, inflated, max_bytes

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS: Final = pa.table({"name": ["Ada"], "salary": [12]})
MIB: Final = 1 << 20


def gzip_of_zeros(mib: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mib)) + packer.flush()


def growth(program: str, *arguments: str) -> tuple[int, str]:
    """By how many MiB a child grew while it ran `act()` of a program, and what `act()` raised."""
    frame = """
        import resource, sys
        {body}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            act()
            said = "nothing"
        except BaseException as error:
            said = f"{{type(error).__name__}}: {{error}}"
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
        print(said[:500])
    """
    body = dedent(program).strip().replace("\n", "\n        ")
    text = dedent(frame.replace("{{", "{").replace("}}", "}").replace("{body}", body))
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    grown, said = done.stdout.split("\n", 1)
    return int(grown), said


# -- metadata.json -------------------------------------------------------------------------------

OPEN: Final = """
    import sealberg, pyarrow, pyiceberg.io.pyarrow
    from sealberg.table.open import open_table
    place, limit = sys.argv[1:]
    open_table(place + ".good")
    def act():
        open_table(place, {"sealberg.metadata.max-bytes": limit} if limit else {})
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the metadata of a plain table are; beside them is a copy."""
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w", **KMS
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    found = Path(table.metadata_location.removeprefix("file://"))
    Path(f"{found}.good").write_bytes(found.read_bytes())
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "limit", "most", "words"),
    [
        pytest.param(lambda: gzip_of_zeros(1024), "", 600, "inflates to more than 268435456 bytes", id="gzip"),
        pytest.param(lambda: gzip_of_zeros(1024), str(MIB), 24, "inflates to more than 1048576", id="small limit"),
        pytest.param(lambda: bytes(64 * MIB), str(8 * MIB), 60, "is more than 8388608 bytes", id="size"),
        pytest.param(lambda: b'{"x":' + b"[" * MIB + b"]" * MIB + b"}", "", 60, "nested too deeply", id="depth"),
        pytest.param(lambda: b'{"x":[' + b"[]," * (20 * MIB) + b"[]]}", "", 260, "more than 16777216", id="values"),
        pytest.param(lambda: b'{"x":' + b"9" * MIB + b"}", "", 24, "not table metadata", id="digits"),
    ],
)
def test_metadata_that_grow_are_refused_within_bounds(
    place: Path, content: Any, limit: str, most: int, words: str
) -> None:
    place.write_bytes(content())
    grown, said = growth(OPEN, f"file://{place}", limit)
    assert said.startswith("FormatError")
    assert words in said
    assert place.name in said
    assert grown < most


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"format-version":3,"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deeply"),
        (b'{"format-version":3,"x":' + b'{"a":' * 200_000 + b"1" + b"}" * 200_001, "nested too deeply"),
        (b'{"format-version":3,"x":' + b"9" * 5000 + b"}", "not table metadata"),
        (b'{"format-version":3,"x":NaN}', "NaN is no JSON"),
        (b'{"format-version":3,"x":-Infinity}', "-Infinity is no JSON"),
        (b'{"format-version":3,"x":"\\ud800"}', "surrogates not allowed"),
        (b'{"format-version":3,"x":"\xff"}', "utf-8"),
        ('{"format-version":3}'.encode("utf-16"), "utf-8"),
        (b"\x1f\x8b" + bytes(20), "do not inflate"),
        (gzip_of_zeros(1)[:-4], "ends too early"),
        (b"", "not table metadata"),
        (b"[]", "but a list"),
        (b'{"format-version":3}', "do not parse"),
        (b'{"format-version":2}', "do not parse"),
        (b'{"format-version":1e999}', "do not parse"),
        (b'{"format-version":"3"}', "do not parse"),
        (b"{}", "do not parse"),
    ],
)
def test_what_is_no_metadata_is_named(place: Path, content: bytes, words: str) -> None:
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{place.parents[4]}/c.db", warehouse=f"file://{place.parents[4]}/w", **KMS
    )
    place.write_bytes(content)
    for door in ("open_table", "load_table"):
        with pytest.raises(FormatError, match=words) as caught:
            catalog.load_table("db.t") if door == "load_table" else sealberg.open_table(f"file://{place}", KMS)
        assert place.name in str(caught.value)
        assert len(str(caught.value)) < 1000


def test_a_gzip_file_of_many_members_is_refused() -> None:
    member = gzip_of_zeros(0)
    assert inflated(member * MAX_MEMBERS, "f") == b""
    with pytest.raises(FormatError, match="f: table metadata are a gzip file of more than 64 members"):
        inflated(member * (MAX_MEMBERS + 1), "f")


def test_metadata_of_exactly_the_limit_pass() -> None:
    assert inflated(gzip_of_zeros(1), "f", MIB) == bytes(MIB)
    with pytest.raises(FormatError):
        inflated(gzip_of_zeros(1), "f", MIB - 1)


@pytest.mark.parametrize("given", ["", "many", "0", "-1", "1.5"])
def test_a_limit_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=MAX_BYTES):
        max_bytes({MAX_BYTES: given})


def test_a_name_that_stands_twice_counts_as_in_java(place: Path) -> None:
    raw = place.read_text()
    place.write_text(raw.replace('"location"', '"location":"file:///nowhere","location"', 1))
    assert sealberg.open_table(f"file://{place}").location() == json.loads(raw)["location"]
