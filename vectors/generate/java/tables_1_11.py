"""The tables of Iceberg Java 1.11.0, the first release with encrypted tables, and what it gets wrong."""

from __future__ import annotations

from typing import Final

from vectors.generate.java.steps import Recipe, create

PLAIN: Final = "id bigint, data string, f float"
SOME: Final = "insert into {t} select id, concat('d', id), cast(id as float) / 2 from range(0, 5, 1, 1)"
OTHERS: Final = "insert into {t} select id, concat('d', id), cast(id as float) / 2 from range(5, 9, 1, 1)"

RECIPES: Final = (
    Recipe("old_append", "appends and copy-on-write deletes of 1.11.0", ["parquet", "copy-on-write"],
           [create(PLAIN), SOME, OTHERS, "delete from {t} where id = 3"]),
    Recipe("old_avro", "Avro data files of 1.11.0", ["append-only", "avro"],
           [create(PLAIN, write_format_default="avro"), SOME, OTHERS]),
    Recipe("old_plaintext_manifests", "rewrite_manifests of 1.11.0 leaves manifests in the clear, with the keys of the "
           "data files in them", ["parquet", "plaintext-manifests"],
           [create(PLAIN), SOME, OTHERS, "call h.system.rewrite_manifests('{n}')"], needs=["plaintext-files"]),
    Recipe("old_lost_vectors", "a deletion vector of 1.11.0: encrypted, and its key was never stored",
           ["parquet", "deletion-vectors", "lost-keys"],
           [create(PLAIN, write_delete_mode="merge-on-read"), SOME, "delete from {t} where id = 3"], unreadable=True),
)  # fmt: skip
