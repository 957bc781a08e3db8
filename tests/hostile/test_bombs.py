"""Small files that become large, or deep: each is a named error, within a bound on memory that was measured.

The bound of each kind is what a child process may grow by. An attacker has no key, so encrypted files cannot be made
into bombs; metadata.json, plain tables and answers of servers can.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import sealberg
from kit.tables.growth import growth
from sealberg.errors import ConfigError, FormatError, IntegrityError
from sealberg.files.avro.container import compress, decompress
from sealberg.files.puffin.container import read_footer
from sealberg.files.puffin.deletion_vector import DeletionVector
from sealberg.metadata import decode_cache as cache
from sealberg.metadata.metadata_file import MAX_BYTES, MAX_MEMBERS, inflated, max_bytes

KMS: Final = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
ROWS: Final = pa.table({"name": ["Ada"], "salary": [12]})
MIB: Final = 1 << 20


def gzip_of_zeros(mib: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mib)) + packer.flush()


# -- metadata.json -------------------------------------------------------------------------------

OPEN: Final = """
    import sealberg, pyarrow, pyiceberg.io.pyarrow
    from sealberg.table.static_table import open_table
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
        pytest.param(lambda: gzip_of_zeros(1024), "", 600, "decompress to more than 268435456 bytes", id="gzip"),
        pytest.param(lambda: gzip_of_zeros(1024), str(MIB), 24, "decompress to more than 1048576", id="small limit"),
        pytest.param(lambda: bytes(64 * MIB), str(8 * MIB), 60, "are more than 8388608 bytes", id="size"),
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
        (b'{"format-version":3,"x":NaN}', "NaN is not JSON"),
        (b'{"format-version":3,"x":-Infinity}', "-Infinity is not JSON"),
        (b'{"format-version":3,"x":"\\ud800"}', "surrogates not allowed"),
        (b'{"format-version":3,"x":"\xff"}', "utf-8"),
        ('{"format-version":3}'.encode("utf-16"), "utf-8"),
        (b"\x1f\x8b" + bytes(20), "do not decompress"),
        (gzip_of_zeros(1)[:-4], "is truncated"),
        (b"", "not table metadata"),
        (b"[]", "found a list"),
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


# -- Avro ----------------------------------------------------------------------------------------

BLOCK: Final = """
    import zlib, pyarrow
    from sealberg.files.avro.container import decompress
    codec = sys.argv[1]
    if codec == "deflate":
        packer = zlib.compressobj(9, wbits=-15)
        packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
    elif codec == "zstandard":
        import io
        sink = io.BytesIO()
        with pyarrow.CompressedOutputStream(sink, "zstd") as out:
            for _ in range(1024):
                out.write(bytes(1 << 20))
            out.flush()
            packed = sink.getvalue()
    else:
        packed = bytes((0x80, 0x80, 0x80, 0x80, 0x04)) + bytes(100)
    def act():
        decompress(codec, packed, 16 << 20)
"""


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_block_that_grows_is_refused_within_bounds(codec: str) -> None:
    grown, said = growth(BLOCK, codec)
    assert said.startswith("FormatError: a block of an Avro file decompresses to more than 16777216 bytes")
    assert grown < 80


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_block_of_exactly_the_limit_passes(codec: str) -> None:
    packed = compress(codec, None, bytes(MIB))
    assert decompress(codec, packed, MIB) == bytes(MIB)
    with pytest.raises(FormatError, match="more than"):
        decompress(codec, packed, MIB - 1)


# -- manifests of a plain table ------------------------------------------------------------------


def zigzag(number: int) -> bytes:
    rest, out = number << 1, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def with_block(manifest: bytes, records: int, packed: bytes, length: int | None = None) -> bytes:
    """The header of an Avro file, and one block after it."""
    sync = manifest[-16:]
    header = manifest[: manifest.index(sync) + 16]
    return header + zigzag(records) + zigzag(len(packed) if length is None else length) + packed + sync


def bomb(mib: int) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mib)) + packer.flush()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["manifest list", "manifest"])
@pytest.mark.parametrize(
    ("records", "packed", "length", "words"),  # lists are read as objects, manifests as columns
    [
        (1, lambda: bomb(65), None, "decompresses to more than 67108864 bytes"),
        (1 << 60, lambda: bomb(0), None, "cannot hold|claims 1152921504606846976 rows in 0 bytes"),
        (1 << 60, lambda: compress("deflate", None, bytes(10)), None, "cannot hold|claims 1152921504606846976 rows"),
        (10, lambda: compress("deflate", None, bytes(10)), None, "not a valid manifest|claims 10 rows in 10 bytes"),
        (1, lambda: compress("deflate", None, bytes(10)), 1 << 40, "block is truncated|claims 1 rows in 1099511627776"),
        (1, lambda: b"\x00\xff\xff", None, "does not decompress"),
    ],
)
def test_a_manifest_that_grows_is_named(
    tmp_path: Path, kind: str, records: int, packed: Any, length: int | None, words: str
) -> None:
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w", **KMS
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties={"format-version": "3"})
    table.append(ROWS)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = snapshot.manifest_list if kind == "manifest list" else snapshot.manifests(table.io)[0].manifest_path
    place = Path(str(found).removeprefix("file://"))
    place.write_bytes(with_block(place.read_bytes(), records, packed(), length))
    cache.clear()
    with pytest.raises(FormatError, match=words) as caught:
        catalog.load_table("db.t").scan().to_arrow()
    assert place.name in str(caught.value)


# -- Puffin, deletion vectors, Parquet -----------------------------------------------------------


def plain_stream(content: bytes) -> Any:
    """A file that is not encrypted, as its readers get it."""
    from io import BytesIO

    class Plain(BytesIO):
        plain_length = len(content)

        def read_at(self, offset: int, length: int) -> bytes:
            return content[offset : offset + length]

    return Plain(content)


def puffin_with(payload: bytes, length: int | None = None) -> bytes:
    end = (len(payload) if length is None else length).to_bytes(4, "little", signed=True) + bytes(4)
    return b"PFA1" + b"PFA1" + payload + end + b"PFA1"


@pytest.mark.parametrize(
    "content",
    [
        puffin_with(b"{}", 2**31 - 1),
        puffin_with(b"{}", -1),
        puffin_with(b'{"blobs":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        puffin_with(b'{"blobs":[{"type":"deletion-vector-v1","fields":[1],"snapshot-id":-1,"sequence-number":-1,'
                    b'"offset":4,"length":9223372036854775807}]}'),
        puffin_with(b'{"blobs":' + b"9" * 10_000 + b"}"),
        puffin_with(b"\xff\xfe"),
    ],
)  # fmt: skip
def test_a_puffin_footer_that_lies_is_a_format_error(content: bytes) -> None:
    with pytest.raises(FormatError):
        read_footer(plain_stream(content))


def vector_of(body: bytes) -> bytes:
    body = b"\xd1\xd3\x39\x64" + body
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


@pytest.mark.parametrize(
    "body",
    [
        (2**64 - 1).to_bytes(8, "little"),
        (1).to_bytes(8, "little") + bytes(4) + (12346).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little"),
        (1).to_bytes(8, "little") + bytes(4) + (12346).to_bytes(4, "little") + (65536).to_bytes(4, "little"),
        (1).to_bytes(8, "little") + bytes(4) + (12347 | 0xFFFF << 16).to_bytes(4, "little"),
        (1).to_bytes(8, "little") + (2**32 - 1).to_bytes(4, "little") + (12346).to_bytes(4, "little") + bytes(4),
    ],
)
def test_a_bitmap_that_lies_about_its_counts_is_an_error_with_a_name(body: bytes) -> None:
    with pytest.raises(IntegrityError):
        DeletionVector.decode(vector_of(body))


FULL: Final = """
    import zlib
    from sealberg.files.puffin.deletion_vector import DeletionVector
    # 2**15 bitmaps of 2**16 full containers each would be 2**47 positions; one such bitmap is 2**32 rows in 786 KiB.
    n = 1 << 16
    cookie = (12347 | (n - 1) << 16).to_bytes(4, "little") + b"\\xff" * (n // 8)
    heads = b"".join(k.to_bytes(2, "little") + b"\\xff\\xff" for k in range(n))
    start = len(cookie) + len(heads) + 4 * n
    offsets = b"".join((start + 6 * k).to_bytes(4, "little") for k in range(n))
    bits = cookie + heads + offsets + (b"\\x01\\x00" + b"\\x00\\x00\\xff\\xff") * n
    body = b"\\xd1\\xd3\\x39\\x64" + (1).to_bytes(8, "little") + bytes(4) + bits
    blob = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    def act():
        vector = DeletionVector.decode(blob)
        assert vector.cardinality == 1 << 32
        assert vector.kept(0, 1000).true_count == 0
        DeletionVector.decode(blob, 12)
"""


@pytest.mark.slow
def test_a_vector_of_four_billion_rows_takes_no_memory_for_each() -> None:
    grown, said = growth(FULL)
    assert said.startswith("FormatError: deletion vector has 4294967296 positions, the manifest has a record count")
    assert grown < 100


# -- Parquet footers of a plain table ------------------------------------------------------------

PARQUET: Final = """
    import pyarrow, pyiceberg.io.pyarrow
    import sealberg
    folder = sys.argv[1]
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
    uri, place = f"sqlite:///{folder}/c.db", f"file://{folder}/w"
    catalog = sealberg.load_catalog("t", type="sql", uri=uri, warehouse=place, **kms)
    catalog.load_table("db.good").scan().to_arrow()
    def act():
        catalog.load_table("db.t").scan().to_arrow()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "footer",
    [
        pytest.param(b"\x15\x02\x19\xfc\xff\xff\xff\xff\x07", id="two billion schema elements"),
        pytest.param(b"\x15\x02\x18\xff\xff\xff\xff\x07", id="a text of two gigabytes"),
        pytest.param(b"\x1c" * 100_000, id="nested structs"),
        pytest.param(None, id="a footer longer than the file"),
    ],
)
def test_a_parquet_footer_that_lies_is_refused_within_bounds(tmp_path: Path, footer: bytes | None) -> None:
    catalog = sealberg.load_catalog(
        "t", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w", **KMS
    )
    catalog.create_namespace("db")
    for name in ("good", "t"):
        table = catalog.create_table(f"db.{name}", ROWS.schema, properties={"format-version": "3"})
        table.append(ROWS)
    place = next((tmp_path / "w" / "db" / "t" / "data").glob("*.parquet"))
    length = len(footer) if footer is not None else 2**31 - 1
    place.write_bytes(b"PAR1" + (footer or b"") + length.to_bytes(4, "little") + b"PAR1")
    grown, said = growth(PARQUET, str(tmp_path))
    assert said.startswith(("FormatError", "TruncatedError", "IntegrityError", "OSError", "ArrowInvalid"))
    assert grown < 150
