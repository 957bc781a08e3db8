"""Tables that we write on Spark, where SQL alone does not get there: Python does what there is no statement for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType, StringType

from interop.python_tables import without_kek
from interop.sql_tables import create, insert
from sealberg.format.ags1 import BLOCK_SIZE
from sealberg.keys.keyring import DAY_MS
from sealberg.keys.manager import EncryptionManager

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = str | Callable[[Any], None]


def by_kind(table: Any) -> None:
    with table.update_spec() as update:
        update.add_field("kind", "identity", "kind")


def by_id(table: Any) -> None:
    with table.update_spec() as update:
        update.remove_field("kind").add_field("id", BucketTransform(3), "id_bucket")


def tagged(table: Any) -> None:
    first = table.metadata.current_snapshot_id
    table.manage_snapshots().create_tag(first, "v1").create_branch(first, "dev").commit()


def back(table: Any) -> None:
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()


def expire(table: Any) -> None:
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in table.metadata.snapshots][:-2]).commit()


def defaults(table: Any) -> None:
    with table.update_schema() as update:
        update.add_column("n_int", IntegerType(), default_value=42)
        update.add_column("n_str", StringType(), default_value='dé"f')


def two_years_ago(table: Any) -> None:
    """A KEK of then, which today's commits no longer use."""
    without_kek(table)
    now = table.encryption
    table.encryption = EncryptionManager(
        now.settings, kms=now.kms, cache=now.cache, now_ms=lambda: time.time_ns() // 10**6 - 800 * DAY_MS
    )
    table.append(table.scan().to_arrow())


def has_two_keys(table: Any) -> None:
    assert sum(key.encrypted_by_id == "keyA" for key in table.metadata.encryption_keys) == 2


def has_long_manifests(table: Any) -> None:
    snapshot = table.metadata.current_snapshot()
    assert max(manifest.manifest_length for manifest in snapshot.manifests(table.io)) > BLOCK_SIZE


KINDS: Final[dict[str, tuple[Step, ...]]] = {
    "partitioned_in_several_ways": (
        create(),
        insert(0, 5),
        by_kind,
        insert(5, 10),
        by_id,
        insert(10, 15),
        "DELETE FROM {t} WHERE id IN (1, 6, 11)",
    ),
    "with_branches_and_tags": (
        create(),
        insert(0, 5),
        tagged,
        insert(5, 8),
        insert(20, 23).replace("{t}", "{t}.branch_dev"),
        "DELETE FROM {t}.branch_dev WHERE id = 1",
    ),
    "rolled_back": (create(), insert(0, 5), insert(5, 8), back, insert(8, 10)),
    "expired": (create(), insert(0, 5), insert(5, 8), "DELETE FROM {t} WHERE id = 3", expire, insert(8, 10)),
    "with_defaults": (
        create(),
        insert(0, 4),
        defaults,
        "INSERT INTO {t} VALUES (5, 'a', 'x', NULL, 1, 'b'), (6, 'a', 'x', NULL, NULL, NULL)",
        "UPDATE {t} SET data = 'new' WHERE id IN (1, 5)",
    ),
    "with_a_new_key_after_two_years": (create(), two_years_ago, insert(0, 5), insert(5, 9), has_two_keys),
    "with_long_manifests": (
        create(
            "kind",
            "'write.manifest.compression-codec' = 'uncompressed', 'write.object-storage.enabled' = 'true', "
            "'write.object-storage.partitioned-paths' = 'false'",
        ),
        "INSERT INTO {t} SELECT id, concat('d', id), concat(id, repeat('k', 30000)), NULL FROM range(60)",
        has_long_manifests,
    ),
}
