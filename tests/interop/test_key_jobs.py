"""rotate, rewrap, prune-keys and shred, with Java reading and writing between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from sealberg.jobs import prune_keys, rewrap, rotate, shred
from sealberg.keys.java_order import MASKS, spread
from sealberg.keys.kms.memory import UnitestKms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.tables.three import Three

CREATE = (
    "CREATE TABLE {t} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '3', 'encryption.key-id' = 'keyA')"
)


class SilentUnitestKms(UnitestKms):
    """Java's test KMS, which does not tell versions here: so every KEK is wrapped anew."""

    @classmethod
    def is_built_in(cls) -> bool:
        return False

    def newest_version(self, master_key_id: str) -> str | None:  # type: ignore[override]
        return None

    def version_in(self, wrapped: bytes) -> str | None:  # type: ignore[override]
        return None


@pytest.fixture(scope="module")
def silent(three: Three) -> Iterator[Any]:
    impl = f"{__name__}:SilentUnitestKms"
    with sealberg.load_catalog("silent", type="hive", uri=three.java.uri, **{"encryption.kms-impl": impl}) as catalog:
        yield catalog


def kek_of_newest(table: Any) -> str:
    found: str = table.metadata.encryption_keys.get(table.metadata.snapshots[-1].key_id).encrypted_by_id
    return found


def loaded(three: Three) -> Any:
    return three.table("keyjobs")


def test_java_reads_and_writes_on_after_every_job(three: Three, silent: Any) -> None:
    three.sql("java", CREATE, "keyjobs")
    three.sql("java", "INSERT INTO {t} VALUES (1)", "keyjobs")
    (first,) = [key.key_id for key in loaded(three).metadata.encryption_keys if key.timestamp]

    made = rotate.plan("db.keyjobs", catalog=three.catalog).execute().outcomes[0].facts["kek_id"]
    three.sql("java", "INSERT INTO {t} VALUES (2)", "keyjobs")
    table = loaded(three)
    if spread(first) & MASKS[0]:  # an id in the first bucket cannot be preceded: Java meets it first
        assert kek_of_newest(table) == made
    table.append(_rows(3))
    assert kek_of_newest(table) == made
    assert sum(three.agreed("keyjobs").values()) == 3

    before = {key.key_id: key for key in table.metadata.encryption_keys if key.timestamp}
    result = rewrap.plan("db.keyjobs", catalog=silent).execute()
    assert result.exit_code == 2  # the KMS does not tell, and the job says so
    after = {key.key_id: key for key in loaded(three).metadata.encryption_keys if key.timestamp}
    assert after.keys() == before.keys()
    assert all(after[each].encrypted_key_metadata != before[each].encrypted_key_metadata for each in after)
    three.sql("java", "INSERT INTO {t} VALUES (4)", "keyjobs")
    assert sum(three.agreed("keyjobs").values()) == 4

    three.sql(
        "java", "CALL h.system.expire_snapshots(table => '{name}', older_than => now(), retain_last => 1)", "keyjobs"
    )
    assert len(loaded(three).metadata.encryption_keys) > 3  # Java leaves them
    assert prune_keys.plan("db.keyjobs", catalog=three.catalog).execute().exit_code == 0
    left = loaded(three).metadata
    assert len(left.encryption_keys) <= len(left.snapshots) + 2
    three.sql("java", "INSERT INTO {t} VALUES (5)", "keyjobs")
    assert sum(three.agreed("keyjobs").values()) == 5

    assert shred.plan("db.keyjobs", catalog=three.catalog).execute().exit_code == 0
    assert sum(three.agreed("keyjobs").values()) == 0
    three.sql("java", "INSERT INTO {t} VALUES (6)", "keyjobs")
    assert sum(three.agreed("keyjobs").values()) == 1


def _rows(number: int) -> Any:
    return pa.table({"id": pa.array([number], pa.int64())})
