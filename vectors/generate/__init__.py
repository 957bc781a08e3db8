"""The hands that make the vectors: other ciphers and codecs than those in src/, and nothing from there.

    python -m vectors.generate         rewrites every file of ags1/, key_metadata/ and keys/

ags1               streams that open, streams of impossible lengths, streams somebody altered
key_metadata       blobs by fastavro, and blobs that no codec would write
keys               `encryption-keys` lists with the key of one snapshot to find

A generator is a function that returns one Vector, or a few of a tight family. Nothing is
random: the same bytes come out every time, and a test compares them with those in git.
Vectors that Iceberg Java wrote are kept, not generated; KEPT names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vectors.generate import ags1, key_metadata, keys

if TYPE_CHECKING:
    from vectors.text import Vector

FOLDERS = ("ags1", "key_metadata", "keys")
KEPT = frozenset(
    {
        "ags1/java_avro",
        "ags1/java_manifest_list",
        "ags1/java_puffin",
        "key_metadata/java_data_file",
        "key_metadata/java_manifest_list",
        "keys/java_chain",
        "keys/java_rotated",
    }
)


def every_vector() -> dict[str, Vector]:
    """All generated vectors by name, in the order of their folders."""
    found: dict[str, Vector] = {}
    for module in (ags1, key_metadata, keys):
        for vector in module.every_vector():
            if vector.name in found or vector.name in KEPT:
                raise ValueError(f"two vectors are called {vector.name}")
            found[vector.name] = vector
    return found
