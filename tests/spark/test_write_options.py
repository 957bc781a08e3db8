"""Write options are obeyed or refused by name, in DataFrames and in INSERT ... WITH."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions

if TYPE_CHECKING:
    from kit.spark import SparkKit

KEY = "TBLPROPERTIES ('encryption.key-id' = 'hr')"


@pytest.fixture
def name(kit: SparkKit) -> str:
    name = kit.fresh("wo")
    kit.sql(f"CREATE TABLE {name} (id bigint) {KEY}")
    kit.sql(f"INSERT INTO {name} VALUES (1)")
    return name


def append(kit: SparkKit, name: str, rows: int = 1, /, **options: str) -> None:
    writer = kit.spark.range(rows).coalesce(1).writeTo(name)
    for key, value in options.items():
        writer = writer.option(key.replace("_", "-"), value)
    writer.append()


def newest(kit: SparkKit, name: str) -> Any:
    snapshot = kit.table(name).current_snapshot()
    assert snapshot is not None
    return snapshot


def test_a_snapshot_gets_the_properties_of_the_write(kit: SparkKit, name: str) -> None:
    append(kit, name, 1, **{"snapshot-property.Ticket": "A-17"})
    assert newest(kit, name).summary["Ticket"] == "A-17"
    kit.sql(f"INSERT INTO {name} WITH (`snapshot-property.by` = 'sql') VALUES (5)")
    assert newest(kit, name).summary["by"] == "sql"


def test_the_format_of_files(kit: SparkKit, name: str) -> None:
    append(kit, name, write_format="avro")
    assert sorted(path.suffix for path in kit.data_files(name)) == [".avro", ".parquet"]
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(2,)]


def test_the_size_of_files(kit: SparkKit) -> None:
    name = kit.fresh("ws")
    kit.sql(f"CREATE TABLE {name} (id bigint, u string) {KEY}")
    rows = kit.spark.range(100_000).coalesce(1).selectExpr("id", "uuid() u")
    rows.writeTo(name).option("target-file-size-bytes", "200000").append()
    assert len(kit.data_files(name)) > 5


@pytest.mark.parametrize("by", ["option", "property"])
def test_the_level_of_compression(kit: SparkKit, by: str) -> None:
    sizes = []
    for level in ("1", "19"):
        name = kit.fresh("wl")
        own = f", 'write.parquet.compression-level' = '{level}'" if by == "property" else ""
        kit.sql(f"CREATE TABLE {name} (s string) TBLPROPERTIES ('encryption.key-id' = 'hr'{own})")
        rows = kit.spark.range(30_000).coalesce(1).selectExpr("concat('some text that repeats ', id % 977, id) s")
        writer = rows.writeTo(name)
        (writer.option("compression-level", level) if by == "option" else writer).append()
        sizes.append(kit.data_files(name)[0].stat().st_size)
    assert sizes[1] < 0.9 * sizes[0]


def test_the_codec(kit: SparkKit) -> None:
    name = kit.fresh("wc")
    kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('format-version' = '3')")
    append(kit, name, compression_codec="gzip")
    assert pq.ParquetFile(kit.data_files(name)[0]).metadata.row_group(0).column(0).compression == "GZIP"


def test_a_branch_gets_the_rows(kit: SparkKit, name: str) -> None:
    table = kit.table(name)
    with table.manage_snapshots() as refs:
        refs.create_branch(newest(kit, name).snapshot_id, "audit")
    append(kit, name, 2, branch="audit")
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(1,)]
    assert kit.sql(f"SELECT count(*) FROM {name}.branch_audit") == [(3,)]
    with pytest.raises(AnalysisException, match="has no branch nope"):
        append(kit, name, branch="nope")


@pytest.mark.parametrize(("level", "refused"), [("serializable", True), ("snapshot", False), (None, False)])
def test_an_overwrite_is_validated_since_the_snapshot_it_names(
    kit: SparkKit, name: str, level: str | None, refused: bool
) -> None:
    base = newest(kit, name).snapshot_id
    kit.sql(f"INSERT INTO {name} VALUES (2)")
    writer = kit.spark.range(9, 10).writeTo(name)
    if level is not None:
        writer = writer.option("isolation-level", level).option("validate-from-snapshot-id", str(base))
    if refused:
        with pytest.raises(Exception, match="Found conflicting files"):
            writer.overwrite(functions.lit(True))
        assert kit.sql(f"SELECT count(*) FROM {name}") == [(2,)]
    else:
        writer.overwrite(functions.lit(True))
        assert kit.sql(f"SELECT id FROM {name}") == [(9,)]


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "unknown": ({"bogus": "1"}, "unknown write option bogus; known are write-format"),
    "a property": ({"encryption.key-id": "hr"}, "unknown write option encryption.key-id.*TBLPROPERTIES"),
    "isolation": ({"isolation-level": "bogus"}, "isolation-level is serializable or snapshot, not bogus"),
    "format": ({"write-format": "xyz"}, "XYZ"),
    "size": ({"target-file-size-bytes": "-1"}, "must be positive"),
    "level": ({"compression-level": "x"}, "compression-level is a number"),
    "codec": ({"compression-codec": "nope"}, "nope"),
    "distribution": ({"distribution-mode": "nope"}, "none, hash or range, not nope"),
    "snapshot": ({"validate-from-snapshot-id": "17"}, "has no snapshot 17"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_option_that_cannot_be_obeyed_is_refused(kit: SparkKit, name: str, case: str) -> None:
    options, text = REFUSED[case]
    with pytest.raises(AnalysisException, match=text):
        append(kit, name, 1, **options)
    assert kit.sql(f"SELECT count(*) FROM {name}") == [(1,)]


def test_a_table_made_by_a_data_frame_does_not_lose_its_key_in_silence(kit: SparkKit) -> None:
    name = kit.fresh("wk")
    with pytest.raises(AnalysisException, match=r"unknown write option encryption\.key-id"):
        kit.spark.range(1).write.option("encryption.key-id", "hr").saveAsTable(name)
    assert not kit.spark.catalog.tableExists(name)
    kit.spark.range(1).writeTo(name).tableProperty("encryption.key-id", "hr").create()
    assert kit.table(name).encryption is not None
