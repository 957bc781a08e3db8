"""Identifies a file by its bytes alone, without a key, a catalog or its name.

AGS1                  an encrypted manifest, manifest list, Avro or Puffin file
PARE ... PARE         Parquet with an encrypted footer
PAR1 ... PAR1         Parquet with a plaintext footer
Obj 01 / PFA1 / ORC   plaintext Avro / Puffin / ORC
{ or gzip of {        table metadata, with its tree of keys; or plaintext JSON
text                  plaintext CSV, or other text
age-encryption.org    a local keystore
"""

from __future__ import annotations

import codecs
import json
import unicodedata
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import FormatError, SealbergError
from sealberg.files.byte_sources import as_source
from sealberg.format.ags1 import HEADER, MAGIC, Layout, check_header
from sealberg.keys.key_tree import KeyTree, key_tree
from sealberg.keys.keyring import Keyring

if TYPE_CHECKING:
    from sealberg.files.byte_sources import RangedSource, Source

# How plaintext files of a table begin.
PLAINTEXT: Final = {b"PAR1": "Parquet", b"Obj\x01": "Avro", b"PFA1": "Puffin", b"ORC": "ORC"}
SAMPLE: Final = 4096
MAX_METADATA: Final = 1 << 28  # far above any metadata.json; limits gzip bombs


@dataclass(frozen=True, slots=True)
class Finding:
    """The kind of a file and its facts; `problem` says why the file is invalid."""

    kind: str
    summary: str
    encrypted: bool
    stored_length: int
    facts: dict[str, Any] = field(default_factory=dict)
    key_tree: KeyTree | None = None
    problem: str | None = None


def identify(place: Source) -> Finding:
    """Read a file's first and last bytes; table metadata are read as a whole."""
    source = as_source(place)
    try:
        size = source.size
        if size is None:
            raise FormatError("the length of the file is unknown: its source reports no size")
        head = _read(source, 0, min(size, 32))
        for magic, look in _LOOKS:
            if head.startswith(magic):
                return look(source, size)
        if head.lstrip()[:1] == b"{":
            return _metadata(_read(source, 0, size), size)
        if (kind := plaintext_kind(_read(source, 0, min(size, SAMPLE)))) is not None:
            return _plain(kind, size)
        what = f"it begins with {head[:8].hex(' ')}" if size else "it is empty"
        return Finding("unknown", "not a file of an Iceberg table", False, size, problem=what)
    finally:
        source.close()


def plaintext_kind(head: bytes) -> str | None:
    """What a file is that anybody can read, by its first bytes: a format of rows, or text; None if they do not tell."""
    for magic, kind in PLAINTEXT.items():
        if head.startswith(magic):
            return kind
    try:
        # A sample may end inside of a character.
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head[:SAMPLE])
    except UnicodeDecodeError:
        return None
    if not text.strip() or any(unicodedata.category(each) == "Cc" and each not in "\t\n\f\r" for each in text):
        return None
    if text.lstrip()[0] in "{[":
        return "JSON"
    first, _, rest = text.partition("\n")
    second = rest.partition("\n")[0] if "\n" in rest or len(head) < SAMPLE else ""
    same = (mark for mark in ",;\t|" if first.count(mark) and first.count(mark) == second.count(mark))
    return "CSV" if next(same, None) is not None else "text"


def _plain(kind: str, size: int) -> Finding:
    return Finding(kind.lower(), f"plaintext {kind}", False, size)


def _ags1(source: RangedSource, size: int) -> Finding:
    found = Finding("ags1", "AGS1, an AES-GCM stream", True, size)
    try:
        check_header(_read(source, 0, min(size, len(HEADER))))
        layout = Layout(size)
    except SealbergError as error:
        return _broken(found, str(error), fits_layout=False)
    facts = {"block_count": layout.block_count, "plain_length": layout.plain_length, "fits_layout": True}
    return Finding(found.kind, found.summary, True, size, facts)


def _parquet_encrypted(source: RangedSource, size: int) -> Finding:
    found = Finding("parquet-encrypted", "Parquet with an encrypted footer", True, size)
    return _with_footer(source, found, b"PARE")


def _parquet(source: RangedSource, size: int) -> Finding:
    found = Finding("parquet", "Parquet with a plaintext footer", False, size)
    return _with_footer(source, found, b"PAR1")


def _with_footer(source: RangedSource, found: Finding, magic: bytes) -> Finding:
    size = found.stored_length
    tail = _read(source, size - 8, 8) if size >= 12 else b""
    if tail[4:] != magic:
        return _broken(found, f"it does not end in {magic.decode()}")
    footer = int.from_bytes(tail[:4], "little")
    if footer + 12 > size:
        return _broken(found, f"a footer of {footer} bytes does not fit into {size}")
    return Finding(found.kind, found.summary, found.encrypted, size, {"footer_length": footer})


def _orc(_source: RangedSource, size: int) -> Finding:
    return _plain("ORC", size)


def _avro(_source: RangedSource, size: int) -> Finding:
    return Finding("avro", "plaintext Avro", False, size)


def _puffin(source: RangedSource, size: int) -> Finding:
    found = Finding("puffin", "plaintext Puffin", False, size)
    tail = _read(source, size - 12, 12) if size >= 20 else b""
    if tail[8:] != b"PFA1":
        return _broken(found, "it does not end in PFA1")
    footer = int.from_bytes(tail[:4], "little", signed=True)
    if not 0 <= footer <= size - 20:
        return _broken(found, f"a footer of {footer} bytes does not fit into {size}")
    return Finding(found.kind, found.summary, False, size, {"footer_length": footer})


def _gzip(source: RangedSource, size: int) -> Finding:
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(_read(source, 0, min(size, MAX_METADATA)), MAX_METADATA)
    except zlib.error as error:
        return Finding("gzip", "a gzip file", False, size, problem=f"it does not decompress: {error}")
    if not inflate.eof:
        problem = f"it is truncated, or decompresses to more than {MAX_METADATA} bytes"
        return Finding("gzip", "a gzip file", False, size, problem=problem)
    kind = plaintext_kind(text[:SAMPLE])
    return _metadata(text, size) if kind in ("JSON", None) else _plain(str(kind), size)


def _metadata(text: bytes, size: int) -> Finding:
    found = Finding("metadata", "table metadata", False, size)
    try:
        metadata = json.loads(text)
        if not isinstance(metadata, dict) or "format-version" not in metadata:
            return Finding("json", "plaintext JSON, but not table metadata: it has no format-version", False, size)
        statistics = [file for kind in ("statistics", "partition-statistics") for file in metadata.get(kind) or []]
        ring = Keyring.from_json(metadata.get("encryption-keys", []))
        tree = key_tree(ring, metadata.get("snapshots") or [], statistics)
    except (ValueError, KeyError, RecursionError, SealbergError) as error:
        if _is_lines(text):
            return _plain("JSON", size)
        return _broken(found, f"it does not parse: {error}")
    properties = metadata.get("properties") or {}
    facts = {
        "format_version": metadata["format-version"],
        "table_uuid": metadata.get("table-uuid"),
        "location": metadata.get("location"),
        "key_id": properties.get("encryption.key-id"),
        "data_key_length": properties.get("encryption.data-key-length"),
        "snapshots": len(metadata.get("snapshots") or []),
        "current_snapshot_id": metadata.get("current-snapshot-id"),
        "encryption_keys": len(metadata.get("encryption-keys", [])),
        # Java writes statistics files in plaintext; files of sealberg have a key.
        "plaintext_statistics": [file.get("statistics-path") for file in statistics if not _has_key(ring, file)],
    }
    # A table that is not encrypted has no key tree, which is not a problem.
    encrypted = bool(facts["key_id"] or facts["encryption_keys"])
    return Finding("metadata", found.summary, False, size, facts, tree if encrypted else None)


def _is_lines(text: bytes) -> bool:
    """Whether this is a JSON object on each line, and not the one of table metadata."""
    first, found, _ = text.lstrip().partition(b"\n")
    try:
        return bool(found) and "format-version" not in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        return False


def _has_key(ring: Keyring, file: dict[str, Any]) -> bool:
    path = file.get("statistics-path")
    return "key-id" in file or any(entry.properties.get("statistics-path") == path for entry in ring)


def _keystore(_source: RangedSource, size: int) -> Finding:
    return Finding("age", "an age file, the format of local keystores", True, size)


_LOOKS: Final = (
    (MAGIC, _ags1),
    (b"PARE", _parquet_encrypted),
    (b"PAR1", _parquet),
    (b"Obj\x01", _avro),
    (b"PFA1", _puffin),
    (b"ORC", _orc),
    (b"\x1f\x8b", _gzip),
    (b"age-encryption.org/v1", _keystore),
)


def _broken(found: Finding, problem: str, **facts: object) -> Finding:
    return Finding(found.kind, found.summary, found.encrypted, found.stored_length, facts, problem=problem)


def _read(source: RangedSource, offset: int, length: int) -> bytes:
    return bytes(source.read_at(offset, length, memoryview(bytearray(length))))
