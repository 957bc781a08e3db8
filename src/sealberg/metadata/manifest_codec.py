"""The compression of manifests and manifest lists: `write.manifest.compression-codec`, as in Java 1.12.

gzip, zstd, snappy and uncompressed are written and read. PyIceberg needs an extra package for snappy, so Arrow's
snappy is used.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Final

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.codecs.codec import Codec

from sealberg.errors import ConfigError
from sealberg.files.avro.container import compress, decompress
from sealberg.files.avro.data_file import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

CODEC: Final = "write.manifest.compression-codec"
DEFAULT: Final = "gzip"


def manifest_codec(properties: Mapping[str, str]) -> str:
    """The codec of a table's new manifests, by its name in Avro."""
    name = properties.get(CODEC) or DEFAULT
    if name.lower() not in NAMES:
        raise ConfigError(f"Unsupported compression codec: {name} ({CODEC} must be one of {', '.join(NAMES)})")
    return NAMES[name.lower()]


class SnappyCodec(Codec):
    """Avro's snappy with its checksum, by Arrow."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        packed = compress("snappy", None, data)
        return packed, len(packed)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return decompress("snappy", data)


if importlib.util.find_spec("snappy") is None:
    KNOWN_CODECS["snappy"] = SnappyCodec
