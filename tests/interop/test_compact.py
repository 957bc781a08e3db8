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


LAID = (
    "CREATE TABLE {t} (id bigint, data string, kind string, at timestamp) USING iceberg TBLPROPERTIES "
    "('format-version' = '3', 'encryption.key-id' = 'keyA', 'write.distribution-mode' = 'none')"
)
ROWS = """
    SELECT /*+ COALESCE(1) */ IF(id = 5, NULL, (id * 37) % 101 - 50),
        IF(id = 3, NULL, concat(chr(97 + id % 5), lpad(id, 3, '0'), repeat('x', id % 10))),
        concat('k', id % 4), timestamp'1969-12-31 12:00:00' + make_dt_interval((id * 7) % 30, id)
    FROM range({first}, {first} + 40)
"""
ORDERS = ["id DESC NULLS LAST", "kind, data DESC", "bucket(4, id), id", "zorder(id, data)", "zorder(kind, at, id)"]


def test_rows_are_laid_by_sort_and_zorder_as_java_lays_them(three: Three) -> None:
    """Two encrypted tables with the same rows; Java rewrites one, we the other. No two rows are equal in any order."""
    for name in ("laid_by_java", "laid_by_spark"):
        three.sql("java", LAID, name)
        for first in (0, 40):
            three.sql("java", "INSERT INTO {t}" + ROWS.replace("{first}", str(first)), name)
    before = three.agreed("laid_by_spark")
    for order in ORDERS:
        java, ours = (laid(three, writer, order) for writer in ("java", "spark"))
        assert ours == java, order
    assert three.agreed("laid_by_spark") == before
    assert three.agreed("laid_by_java") == before
    assert len(data_files(three.table("laid_by_spark"))) == len(data_files(three.table("laid_by_java"))) == 1


def laid(three: Three, writer: str, order: str) -> tuple[list[int], list[dict[str, Any]]]:
    """What the call counts, but for bytes, and the rows as they lie in the file."""
    name = f"laid_by_{writer}"
    call = "CALL {c}.system.rewrite_data_files(table => '{name}', strategy => 'sort', "
    (done,) = three.sql(writer, f"{call}sort_order => '{order}', options => map('rewrite-all', 'true'))", name)
    counts = [value for key, value in sorted(done.items()) if key != "rewritten_bytes_count"]
    return counts, three.sql("java", "SELECT _pos, id, data, kind, at FROM {t} ORDER BY _pos", name)
