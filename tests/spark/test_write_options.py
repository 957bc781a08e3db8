"""Write options are obeyed or refused by name, in DataFrames and in INSERT ... WITH."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import ValidationException
from pyspark.errors import AnalysisException
from pyspark.sql import functions

from kit.programs.spark import properties_of
from sealberg.table.transaction import EncryptedTransaction

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kit.programs.spark import SparkKit

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


@pytest.mark.parametrize(("level", "refused"), [("serializable", True), ("snapshot", False)])
def test_an_overwrite_of_partitions_is_validated_as_its_option_says(kit: SparkKit, level: str, refused: bool) -> None:
    name = kit.fresh("wp")
    kit.sql(f"CREATE TABLE {name} (id bigint, p int) PARTITIONED BY (p) {KEY}")
    kit.sql(f"INSERT INTO {name} VALUES (1, 0), (2, 1)")
    base = newest(kit, name).snapshot_id
    kit.sql(f"INSERT INTO {name} VALUES (3, 0)")
    rows = kit.spark.range(9, 10)

    def overwrite(partition: int) -> None:
        writer = rows.selectExpr("id", f"{partition} p").writeTo(name).option("isolation-level", level)
        writer.option("validate-from-snapshot-id", str(base)).overwritePartitions()

    overwrite(1)
    if refused:
        with pytest.raises(Exception, match="Found conflicting files that can contain records matching 1 replaced"):
            overwrite(0)
        assert kit.sql(f"SELECT * FROM {name}") == [(1, 0), (3, 0), (9, 1)]
    else:
        overwrite(0)
        assert kit.sql(f"SELECT * FROM {name}") == [(9, 0), (9, 1)]
    rows.selectExpr("id + 1 id", "1 p").write.option("overwrite-mode", "dynamic").mode("overwrite").insertInto(name)
    assert (10, 1) in kit.sql(f"SELECT * FROM {name}")
    assert len(kit.sql(f"SELECT * FROM {name} WHERE p = 0")) > 0


@pytest.fixture
def meanwhile(kit: SparkKit, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Appends a row to a table between the plan of the next commit and the commit itself."""

    def arm(name: str) -> None:
        commit = EncryptedTransaction.commit_transaction

        def late(change: EncryptedTransaction) -> Any:
            monkeypatch.setattr(EncryptedTransaction, "commit_transaction", commit)
            kit.table(name).append(pa.table({"id": pa.array([77], pa.int64())}))
            return commit(change)

        monkeypatch.setattr(EncryptedTransaction, "commit_transaction", late)

    return arm


@pytest.mark.parametrize("how", ["", " AS SELECT 5L AS id, 'x' AS more"])
def test_a_replaced_table_does_not_get_rows_that_came_meanwhile(
    kit: SparkKit, name: str, how: str, meanwhile: Callable[[str], None]
) -> None:
    meanwhile(name)
    with pytest.raises(Exception, match="Found conflicting files"):
        kit.sql(f"REPLACE TABLE {name} {'(id bigint, more string) ' if not how else ''}{KEY}{how}")
    assert kit.sql(f"SELECT * FROM {name}") == [(1,), (77,)]


def test_an_overwrite_without_a_catalog_sees_rows_that_came_meanwhile(
    kit: SparkKit, name: str, meanwhile: Callable[[str], None], tmp_path: Path
) -> None:
    from sealberg.spark.datasource.source import Target, Writer

    properties = tmp_path / "properties.json"
    properties.write_text(json.dumps(properties_of(kit.folder)))
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    target = Target("prod", tuple(name.split(".")[1:]), str(properties))
    writer = Writer(target, schema, overwrite=True)
    meanwhile(name)
    with pytest.raises(ValidationException, match="Found conflicting files"):
        writer.commit([])
    assert kit.sql(f"SELECT * FROM {name}") == [(1,), (77,)]


def test_a_path_is_where_the_table_is_or_refused(kit: SparkKit, name: str) -> None:
    with pytest.raises(AnalysisException, match=r"the write option path says /elsewhere: a write cannot move a table"):
        append(kit, name, path="/elsewhere")
    append(kit, name, path=kit.table(name).location())
    new = kit.fresh("wp")
    kit.spark.range(1).write.option("path", f"{kit.warehouse}/chosen").saveAsTable(new)
    assert kit.table(new).location() == f"file:{kit.warehouse}/chosen"


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "unknown": ({"bogus": "1"}, "unknown write option bogus; known are write-format"),
    "a property": ({"encryption.key-id": "hr"}, "unknown write option encryption.key-id.*TBLPROPERTIES"),
    "isolation": ({"isolation-level": "bogus"}, "isolation-level is serializable or snapshot, not bogus"),
    "format": ({"write-format": "xyz"}, "XYZ"),
    "size": ({"target-file-size-bytes": "-1"}, "must be positive"),
    "level": ({"compression-level": "x"}, "compression-level is a number"),
    "codec": ({"compression-codec": "nope"}, "nope"),
    "distribution": ({"distribution-mode": "nope"}, "none, hash or range, not nope"),
    "output": ({"output-spec-id": "0"}, "output-spec-id is not supported: rows are written with the table's current"),
    "mode": ({"overwrite-mode": "wide"}, "overwrite-mode is static or dynamic, not wide"),
    "advice": ({"advisory-partition-size": "0"}, "advisory-partition-size must be positive"),
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
