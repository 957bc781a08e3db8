"""Reads, decompresses and parses a metadata.json within limits, before its writer is known.

    file ──read_text──> text (compared with the catalog's hash) ──parse──> JSON
                                                               └─parse_long──> JSON, and long lists as text

    sealberg.metadata.max-bytes    of the catalog: the largest text of table metadata, 256 MiB unless set

The catalog's hash is over the decompressed text, so a compressed file must be decompressed before the comparison:
`max-bytes` limits the cost. Nothing is parsed before the comparison.

    with remembering(texts): ...    within the block, read_current does not read a file again that was read a moment ago

Metadata files never change; a commit writes a new file. A statement of Spark loads its table several times.
"""

from __future__ import annotations

import contextlib
import threading
import time
import zlib
from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError, FormatError
from sealberg.files.file_io import naming
from sealberg.metadata import java_json, long_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.io import InputFile

MAX_BYTES: Final = "sealberg.metadata.max-bytes"
DEFAULT_MAX_BYTES: Final = 256 << 20
READ_SIZE: Final = 32 << 20
GZIP_MAGIC: Final = b"\x1f\x8b"
RECENT_S: Final = 30.0
RECENT_MOST: Final = 16
RECENT_BYTES: Final = 4 << 20
MAX_MEMBERS: Final = 64  # of a gzip file; writers of metadata write one


def max_bytes(properties: Mapping[str, Any]) -> int:
    """The size limit of the text of table metadata."""
    given = properties.get(MAX_BYTES, DEFAULT_MAX_BYTES)
    try:
        limit = int(given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{MAX_BYTES} must be a number of bytes, found {given!r}") from error
    if limit <= 0:
        raise ConfigError(f"{MAX_BYTES} must be more than 0, found {limit}")
    return limit


class RecentTexts:
    """The texts of recently read metadata files; safe to share among threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._texts: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def get(self, location: str) -> bytes | None:
        with self._lock:
            since, text = self._texts.get(location, (0.0, None))
        return text if text is not None and self._clock() - since < RECENT_S else None

    def keep(self, location: str, text: bytes) -> None:
        if len(text) > RECENT_BYTES:
            return
        with self._lock:
            self._texts[location] = (self._clock(), text)
            self._texts.move_to_end(location)
            if len(self._texts) > RECENT_MOST:
                self._texts.popitem(last=False)


_recent: Final[ContextVar[RecentTexts | None]] = ContextVar("sealberg_recent_texts", default=None)


@contextmanager
def remembering(texts: RecentTexts) -> Iterator[None]:
    """Within the block, `read_current` on this thread does not read files that are in `texts` again."""
    token = _recent.set(texts)
    try:
        yield
    finally:
        _recent.reset(token)


def read_text(file: InputFile, limit: int = DEFAULT_MAX_BYTES) -> bytes:
    """The decompressed text of a metadata file, as storage has it now; FormatError if it is larger than the limit."""
    pieces: list[bytes] = []
    length = 0
    with naming(file.location), file.open() as stream:
        while piece := bytes(stream.read(READ_SIZE)):
            length += len(piece)
            if length > limit:
                raise FormatError(_too_large(file.location, "are", limit))
            pieces.append(piece)
    return inflated(b"".join(pieces), file.location, limit)


def read_current(file: InputFile, limit: int = DEFAULT_MAX_BYTES) -> bytes:
    """The same of a file that a catalog names as current, which nobody changes: within `remembering`, from memory.

    What proves or deletes reads storage instead, by `read_text`.
    """
    recent = _recent.get()
    text = recent.get(file.location) if recent is not None else None
    if text is None or len(text) > limit:
        text = read_text(file, limit)
        if recent is not None:
            recent.keep(file.location, text)
    return text


def inflated(content: bytes, location: str, limit: int = DEFAULT_MAX_BYTES) -> bytes:
    """The text of a metadata file, which may be compressed with gzip whatever its name."""
    if not content.startswith(GZIP_MAGIC):
        return content
    pieces: list[bytes] = []
    left, length = content, 0
    for _ in range(MAX_MEMBERS):
        member = zlib.decompressobj(wbits=31)
        try:
            piece = member.decompress(left, limit - length + 1)
        except zlib.error as error:
            raise FormatError(f"{location}: table metadata do not decompress: {error}") from error
        length += len(piece)
        if length > limit:
            raise FormatError(_too_large(location, "decompress to", limit))
        if not member.eof:
            raise FormatError(f"{location}: table metadata do not decompress: the file is truncated")
        pieces.append(piece)
        left = member.unused_data.lstrip(b"\0")  # gzip files may be padded
        if not left:
            return b"".join(pieces)
    raise FormatError(
        f"{location}: table metadata are a gzip file of more than {MAX_MEMBERS} members, expected one member"
    )


def parse(text: str | bytes, location: str) -> dict[str, Any]:
    """The metadata as parsed JSON; FormatError with the file's path if the text is not a JSON object."""
    try:
        raw = java_json.loads(text)
    except ValueError as error:
        raise FormatError(f"{location}: not table metadata: {str(error)[:300]}") from error
    if not isinstance(raw, dict):
        raise FormatError(f"{location}: not table metadata: found a {type(raw).__name__}, expected an object")
    return raw


def parse_long(text: bytes, location: str) -> dict[str, Any]:
    """As `parse`, with a `LongList` in place of each long list that is regular: for `V3TableMetadata.from_raw`."""
    with contextlib.suppress(ValueError):  # `parse` tells what is wrong with the whole text
        if (raw := long_lists.cut(text, java_json.loads)) is not None:
            return raw
    return parse(text, location)


def _too_large(location: str, verb: str, limit: int) -> str:
    return f"{location}: table metadata {verb} more than {limit} bytes; set {MAX_BYTES} on the catalog to allow more"
