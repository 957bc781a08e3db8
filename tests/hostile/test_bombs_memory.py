"""Manifests, Puffin footers and bitmaps that lie about their size take no more memory than a measured bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kit.tables.growth import growth

if TYPE_CHECKING:
    from pathlib import Path

LYING: Final = """
    import zlib
    from io import BytesIO
    from sealberg.errors import IntegrityError
    from sealberg.files.puffin.deletion_vector import DeletionVector
    from sealberg.files.puffin.container import read_footer

    class Plain(BytesIO):
        @property
        def plain_length(self):
            return len(self.getvalue())
        def read_at(self, offset, length):
            return self.getvalue()[offset : offset + length]

    def footer(payload, length):
        return Plain(b"PFA1PFA1" + payload + length.to_bytes(4, "little", signed=True) + bytes(4) + b"PFA1")
    def vector(body):
        body = b"\\xd1\\xd3\\x39\\x64" + body
        return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    deep = b'{"blobs":' + b"[" * 500000 + b"]" * 500000 + b"}"
    blob = b'{"blobs":[{"type":"deletion-vector-v1","fields":[1],"offset":4,"length":9223372036854775807}]}'
    footers = [footer(b"{}", 2**31 - 1), footer(b"{}", -1), footer(deep, len(deep)), footer(blob, len(blob))]
    one = (1).to_bytes(8, "little") + bytes(4)
    bitmaps = [
        vector((2**64 - 1).to_bytes(8, "little")),
        vector(one + (12346).to_bytes(4, "little") + (2**32 - 1).to_bytes(4, "little")),
        vector(one + (12346).to_bytes(4, "little") + (65536).to_bytes(4, "little")),
        vector(one + (12347 | 0xFFFF << 16).to_bytes(4, "little")),
    ]
    def act():
        refused = 0
        for each in footers + bitmaps:
            try:
                read_footer(each) if isinstance(each, Plain) else DeletionVector.decode(each)
            except IntegrityError:
                refused += 1
        raise SystemExit(f"{refused} of {len(footers) + len(bitmaps)} refused")
"""

MANIFEST: Final = """
    import pathlib, zlib
    import pyarrow, pyiceberg.io.pyarrow
    import sealberg
    from sealberg.metadata import decode_cache as cache
    folder, kind = sys.argv[1:]
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}
    uri, place = f"sqlite:///{folder}/c.db", f"file://{folder}/w"
    catalog = sealberg.load_catalog("t", type="sql", uri=uri, warehouse=place, **kms)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pyarrow.schema([("a", pyarrow.int64())]), properties={"format-version": "3"})
    table.append(pyarrow.table({"a": [1]}))
    table.scan().to_arrow()
    snapshot = table.current_snapshot()
    found = snapshot.manifest_list if kind == "list" else snapshot.manifests(table.io)[0].manifest_path
    file = pathlib.Path(str(found).removeprefix("file://"))
    whole = file.read_bytes()
    sync = whole[-16:]
    packer = zlib.compressobj(9, wbits=-15)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1024)) + packer.flush()
    def zigzag(number):
        rest, out = number << 1, bytearray()
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        return bytes([*out, rest])
    header = whole[: whole.index(sync) + 16]
    file.write_bytes(header + zigzag(1) + zigzag(len(packed)) + packed + sync)
    cache.clear()
    def act():
        catalog.load_table("db.t").scan().to_arrow()
"""


@pytest.mark.slow
def test_puffin_footers_and_bitmaps_that_lie() -> None:
    grown, said = growth(LYING)
    assert said.startswith("SystemExit: 8 of 8 refused")
    assert grown < 32


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "manifest"])
def test_a_manifest_of_a_gigabyte_of_zeros(tmp_path: Path, kind: str) -> None:
    grown, said = growth(MANIFEST, str(tmp_path), kind)
    assert said.startswith("FormatError")
    assert "decompresses to more than 67108864 bytes" in said
    assert grown < 200
