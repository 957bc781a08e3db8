"""Tables of every catalog, and tables of other writers, are inspected with all their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.forge import SCHEMA, rows
from kit.tables import catalogs, corpus
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.jobs.checks.table_state import load
from sealberg.jobs.inspect_table import inspect_table

if TYPE_CHECKING:
    from pathlib import Path

lake = catalogs.lake  # a fixture: every kind of catalog
# Tables of the corpus that hold plaintext, or files that cannot be opened; by the codes of findings.
KNOWN = {"old_plaintext_manifests": {"plaintext"}}


def test_a_table_in_every_catalog_is_shown_with_its_keys_and_files(lake: catalogs.Lake) -> None:
    table = lake.connect().create_table("db.t", SCHEMA, properties={"encryption.key-id": "hr"})
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    found = inspect_table(load(lake.connect(), "db.t"), files=True)
    assert (found.exit_code, found.findings, found.not_checked) == (0, (), ())
    assert found.table is not None
    assert found.table.vouched_by == ("server" if lake.kind == "rest" else "hash")
    assert [(kek.state, len(kek.snapshots)) for kek in found.table.keks] == [("active", 2)]
    kinds = [file.kind for file in found.files]
    assert {kind: kinds.count(kind) for kind in kinds} == {"manifest-list": 2, "manifest": 2, "data": 2}


def test_tables_of_other_writers_hold_no_plaintext_but_what_is_known(tmp_path: Path) -> None:
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}", **corpus.KMS, **corpus.HOME}
    with EncryptedSqlCatalog("java", **settings) as catalog:
        catalog.create_namespace("db")
        codes, files = {}, 0
        for name, entry in corpus.TABLES.items():
            catalog.register_table(f"db.{name}", corpus.at_home(entry))
            found = inspect_table(load(catalog, f"db.{name}"), files=True)
            assert found.not_checked == ()
            codes[name] = {finding.code for finding in found.findings}
            files += len(found.files)
    assert {name: found for name, found in codes.items() if found} == KNOWN
    assert files > 300
