"""A table of Java's on a Hive Metastore, compacted by us: Java, Python and Spark read the same rows and row ids."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kit.tables.tables import check_lineage, data_files, delete_files, manifests
from sealberg.jobs import compact, rewrite_manifests, rewrite_position_delete_files
from sealberg.jobs.verify import plan as verify

if TYPE_CHECKING:
    from kit.tables.three import Three

CREATE = (
    "CREATE TABLE {t} (id bigint, data string, kind string) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES "
    "('format-version' = '3', 'encryption.key-id' = 'keyA', 'write.delete.mode' = 'merge-on-read')"
)


def made_by_java(three: Three, name: str) -> Any:
    three.sql("java", CREATE, name)
    for step in range(4):
        rows = ", ".join(f"({i}, 'row {i}', '{'xy'[i % 2]}')" for i in range(step * 8, step * 8 + 8))
        three.sql("java", f"INSERT INTO {{t}} VALUES {rows}", name)
    three.sql("java", "DELETE FROM {t} WHERE id < 16 AND id % 5 = 1", name)
    three.sql("java", "DELETE FROM {t} WHERE id > 16 AND id % 5 = 1", name)
    three.sql("java", "UPDATE {t} SET data = 'changed' WHERE id = 12", name)
    return three.table(name)


def test_java_reads_a_compacted_table_with_the_same_row_ids(three: Three) -> None:
    table = made_by_java(three, "compacted")
    before = three.agreed("compacted")
    vectors = rewrite_position_delete_files.plan(table, options={"rewrite-all": "true"}).execute()
    assert (vectors.rewritten_delete_files_count, vectors.added_delete_files_count) == (2, 1)
    assert three.agreed("compacted") == before
    merged = rewrite_manifests.plan(table).execute()
    assert merged.rewritten_manifests_count > 1
    assert three.agreed("compacted") == before
    result = compact.plan(table, sort="id desc", options={"rewrite-all": "true"}).execute()
    assert result.rewritten_data_files_count >= 8
    assert three.agreed("compacted") == before
    table = three.table("compacted")
    assert (len(data_files(table)), len(delete_files(table)), len(manifests(table)) >= 1) == (2, 0, True)
    # Java goes on: with a delete on the new file, and its own compaction of the result.
    three.sql("java", "DELETE FROM {t} WHERE id = 2", "compacted")
    three.sql("java", "INSERT INTO {t} VALUES (100, 'after', 'x')", "compacted")
    after = three.agreed("compacted")
    three.sql("java", "CALL {c}.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))",
              "compacted")  # fmt: skip
    assert three.agreed("compacted") == after
    table = three.table("compacted")
    check_lineage(table)
    found = verify(table, level="deep", orphan_age=timedelta(0)).execute()
    assert [finding for finding in found.findings if finding.code != "key-unused"] == []
