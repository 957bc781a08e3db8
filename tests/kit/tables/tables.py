"""Tables of a catalog in a folder, and a plain PyIceberg catalog for comparison.

with sealed_catalog(tmp_path) as catalog:
    table = make(catalog, schema, **{"write.delete.mode": "merge-on-read"})
    table.append(...)
    check_lineage(table)
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.metadata.manifest import DataFileV3, ManifestFileV3
from sealberg.table.catalog_table import CatalogTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from sealberg.metadata.table_metadata import V3Snapshot

MASTER_KEY = "ab" * 16
_names = count()


@contextmanager
def sealed_catalog(folder: Path, **properties: str) -> Iterator[EncryptedSqlCatalog]:
    """A catalog with the namespace `hr` and the master key `hr`."""
    (folder / "sealed").mkdir(parents=True, exist_ok=True)
    settings = {
        "uri": f"sqlite:///{folder}/sealed/catalog.db",
        "warehouse": f"file://{folder}/sealed/wh",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": MASTER_KEY,
        **properties,
    }
    catalog = EncryptedSqlCatalog("sealed", **settings)
    catalog.create_namespace_if_not_exists("hr")
    try:
        yield catalog
    finally:
        catalog.close()


@contextmanager
def plain_catalog(folder: Path) -> Iterator[SqlCatalog]:
    """PyIceberg itself, with the namespace `hr`."""
    (folder / "plain").mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("plain", uri=f"sqlite:///{folder}/plain/catalog.db", warehouse=f"file://{folder}/plain/wh")
    catalog.create_namespace_if_not_exists("hr")
    try:
        yield catalog
    finally:
        catalog.close()


def make(
    catalog: Catalog,
    schema: Schema | pa.Schema,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    /,
    **properties: str,
) -> CatalogTable:
    """A new encrypted table."""
    return _make(catalog, schema, spec, {"encryption.key-id": "hr", **properties})


def make_open(
    catalog: Catalog,
    schema: Schema | pa.Schema,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    /,
    **properties: str,
) -> CatalogTable:
    """A new version 3 table that is not encrypted."""
    return _make(catalog, schema, spec, {"format-version": "3", **properties})


def _make(
    catalog: Catalog, schema: Schema | pa.Schema, spec: PartitionSpec, properties: dict[str, str]
) -> CatalogTable:
    table = catalog.create_table(f"hr.t{next(_names)}", schema, partition_spec=spec, properties=properties)
    assert isinstance(table, CatalogTable)
    return table


def make_plain(
    catalog: SqlCatalog, schema: Schema | pa.Schema, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC
) -> Table:
    """The same for PyIceberg, of version 2."""
    name = f"hr.p{next(_names)}"
    return catalog.create_table(name, schema, partition_spec=spec, properties={"format-version": "2"})


# -- rows -----------------------------------------------------------------------------------------


def rows(table: Table, *columns: str, row_filter: Any = None, **scan: Any) -> list[dict[str, Any]]:
    """All rows of a scan, sorted; NaN becomes the text "NaN", so that rows can be compared."""
    arguments = {**scan, **({"row_filter": row_filter} if row_filter is not None else {})}
    found = table.scan(selected_fields=columns or ("*",), **arguments).to_arrow().to_pylist()
    return in_order(found)


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: _comparable(value) for name, value in row.items()} for row in found), key=repr)


def _comparable(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    return value


def lineage(table: Table, key: str = "id", **scan: Any) -> dict[Any, tuple[int, int]]:
    """For each key, the row id and the last updated sequence number."""
    found = table.scan(selected_fields=(key, "_row_id", "_last_updated_sequence_number"), **scan).to_arrow().to_pylist()
    return {row[key]: (row["_row_id"], row["_last_updated_sequence_number"]) for row in found}


# -- files ----------------------------------------------------------------------------------------


def head(table: Table) -> V3Snapshot:
    found = table.metadata.current_snapshot()
    assert found is not None
    return found  # type: ignore[return-value]


def manifests(table: Table, snapshot: Any = None) -> list[ManifestFileV3]:
    found = (snapshot or head(table)).manifests(table.io)
    return [one for one in found if isinstance(one, ManifestFileV3)]


def entries(table: Table, snapshot: Any = None, *, deleted: bool = False) -> list[ManifestEntry]:
    return [
        entry
        for manifest in manifests(table, snapshot)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=not deleted)
    ]


def data_files(table: Table, snapshot: Any = None) -> list[DataFileV3]:
    return [file for file in _files(table, snapshot) if file.content.value == 0]


def delete_files(table: Table, snapshot: Any = None) -> list[DataFileV3]:
    return [file for file in _files(table, snapshot) if file.content.value != 0]


def _files(table: Table, snapshot: Any) -> list[DataFileV3]:
    return [entry.data_file for entry in entries(table, snapshot) if isinstance(entry.data_file, DataFileV3)]


def stored(folder: Path) -> list[Path]:
    """Every file under a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def local(location: str) -> Path:
    from pathlib import Path

    return Path(str(location).removeprefix("file://"))


# -- what always holds ----------------------------------------------------------------------------


def check_lineage(table: Table) -> None:
    """Check that row ids are unique in every snapshot, and that no counter of row ids goes back."""
    metadata: Any = table.metadata
    ordered = sorted(metadata.snapshots, key=lambda snapshot: snapshot.sequence_number)
    for before, after in pairwise(ordered):
        assert after.first_row_id == before.first_row_id + before.added_rows
    assert metadata.next_row_id == (ordered[-1].first_row_id + ordered[-1].added_rows if ordered else 0)
    for snapshot in ordered:
        _check_manifests(table, snapshot)
        found = table.scan(
            snapshot_id=snapshot.snapshot_id, selected_fields=("_row_id", "_last_updated_sequence_number")
        )
        ids = found.to_arrow().to_pydict()
        assert None not in ids["_row_id"]
        assert len(set(ids["_row_id"])) == len(ids["_row_id"]), snapshot
        assert all(0 <= one < snapshot.first_row_id + snapshot.added_rows for one in ids["_row_id"])
        assert all(1 <= one <= snapshot.sequence_number for one in ids["_last_updated_sequence_number"])


def _check_manifests(table: Table, snapshot: Any) -> None:
    given = 0
    ranges: list[tuple[int, int]] = []
    vectors: list[str] = []
    live: set[str] = set()
    for manifest in manifests(table, snapshot):
        counts = (manifest.existing_rows_count or 0) + (manifest.added_rows_count or 0)
        if manifest.content == ManifestContent.DELETES:
            assert manifest.first_row_id is None
        else:
            assert manifest.first_row_id is not None
            if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.first_row_id >= snapshot.first_row_id:
                assert manifest.first_row_id == snapshot.first_row_id + given
                given += counts
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            assert isinstance(file, DataFileV3)
            assert entry.sequence_number is not None
            assert manifest.min_sequence_number is not None
            assert manifest.sequence_number is not None
            assert manifest.min_sequence_number <= entry.sequence_number <= manifest.sequence_number
            if file.content.value == 0:
                assert file.first_row_id is not None
                ranges.append((file.first_row_id, file.first_row_id + file.record_count))
                live.add(str(file.file_path))
            elif file.is_deletion_vector:
                vectors.append(str(file.referenced_data_file))
    assert given == snapshot.added_rows
    for (_, stop), (start, _) in pairwise(sorted(ranges)):
        assert stop <= start, "two files were given the same row ids"
    assert len(set(vectors)) == len(vectors), "a data file has two deletion vectors"
    assert set(vectors) <= live, "a deletion vector is about a file that is gone"
