"""change-master: a new table under another master key takes the place of a table, in every catalog."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jobs.job_tables import SCHEMA, content, keys_of, make, rows, state
from kit.tables import catalogs, corpus
from kit.tables.catalogs import path_of
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.errors import (
    ConfigError,
    ConflictError,
    IntegrityError,
    KeyNotFoundError,
    PurgeRefusedError,
    RemovalRefusedError,
)
from sealberg.files.seal import open_bytes
from sealberg.jobs import erase, expire, orphans
from sealberg.jobs.change_master import plan
from sealberg.jobs.replaced_table import drop
from sealberg.jobs.verify import plan as verify
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.statistics import V3StatisticsFile

if TYPE_CHECKING:
    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture: every kind of catalog

NEW = "hr-2027"
KEYS = {f"encryption.kms.memory.key.{NEW}": "cd" * 16}
NOW = timedelta(0)


def test_a_table_gets_another_master_key_in_every_catalog(lake: Lake) -> None:
    catalog = lake.connect(**KEYS)
    table = make(catalog)
    before, properties, files = state(table), dict(table.properties), data_files(lake)
    result = plan("db.t", NEW, catalog=catalog).execute()
    assert result.exit_code == 0
    assert "sealberg change-master db.t hr-2027 --drop-old" in str(result)
    fresh = lake.connect(**KEYS)
    live, old = fresh.load_table("db.t"), fresh.load_table("db.t_old")
    assert (live.properties["gc.enabled"], old.properties["gc.enabled"]) == ("false", "false")  # they share files
    assert state(live) == state(old) == before
    assert len(live.metadata.snapshots) == 3
    assert data_files(lake) == files
    for name in ("db.t", "db.t_old"):
        with pytest.raises(PurgeRefusedError, match=r"gc\.enabled=false"):
            fresh.purge_table(name)
    live.append(rows(30, 33))
    live.delete("id = 15")
    assert not verify("db.t", catalog=fresh).execute().findings, "db.t_old, in the same folder, is known"
    dropped = plan("db.t", NEW, catalog=fresh, drop_old=True).execute()
    assert dropped.removed.files > 5
    assert not fresh.table_exists("db.t_old")
    assert fresh.load_table("db.t").properties == {**properties, KEY_ID_PROPERTY: NEW}
    assert [row["id"] for row in content(fresh.load_table("db.t"))] == sorted({*range(33)} - {3, 14, 15})
    found = verify("db.t", catalog=lake.connect(**KEYS), orphan_age=NOW).execute()
    assert (found.findings, found.not_checked) == ((), ())


def data_files(lake: Lake) -> dict[str, int]:
    return {path: Path(path).stat().st_mtime_ns for path in lake.files() if "/data/" in path}


@pytest.fixture
def small(tmp_path: Path) -> Any:
    with catalogs._lake("sqlite", tmp_path) as found:
        yield found


def test_history_keeps_every_snapshot_and_the_log(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    before = make(catalog, **{"gc.enabled": "true"}).metadata
    plan("db.t", NEW, catalog=catalog, history=True, keep_as="db.before").execute()
    live = small.connect(**KEYS).load_table("db.t")
    assert live.metadata.snapshot_log == before.snapshot_log
    for snapshot in before.snapshots:
        old = catalog.load_table("db.before")
        assert content(live, snapshot_id=snapshot.snapshot_id) == content(old, snapshot_id=snapshot.snapshot_id)
    plan("db.t", NEW, catalog=catalog, keep_as="db.before", drop_old=True).execute()
    assert catalog.load_table("db.t").properties == {**before.properties, KEY_ID_PROPERTY: NEW}


def test_nothing_removes_files_that_the_old_table_still_uses(small: Lake) -> None:
    """`expire` on the new table would break the old one; `erase` would leave the rows that only the old one shows."""
    catalog = small.connect(**KEYS)
    make(catalog)
    plan("db.t", NEW, catalog=catalog).execute()
    old = content(catalog.load_table("db.t_old"))
    catalog.load_table("db.t").overwrite(rows(0, 3))
    for refused in (
        lambda: expire.plan("db.t", catalog=catalog, older_than=NOW, retain_last=1),
        lambda: erase.plan("db.t", where="id = 1", catalog=catalog),
        lambda: orphans.plan(catalog.load_table("db.t"), older_than=NOW, allow_recent=True),
    ):
        with pytest.raises(RemovalRefusedError, match=r"Drop that table with `sealberg change-master db\.t hr-2027"):
            refused()
    assert content(catalog.load_table("db.t_old")) == old
    plan("db.t", NEW, catalog=catalog, drop_old=True).execute()
    expired = expire.plan("db.t", catalog=catalog, older_than=NOW, retain_last=1).execute()
    assert expired.exit_code == 0
    assert len(content(catalog.load_table("db.t"))) == 3


def test_a_table_that_was_dropped_by_hand_lets_the_files_go(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    plan("db.t", NEW, catalog=catalog).execute()
    catalog.drop_table("db.t_old")
    plan("db.t", NEW, catalog=catalog, drop_old=True).execute()
    assert "gc.enabled" not in catalog.load_table("db.t").properties


def test_the_old_master_key_and_every_old_file_open_no_list_and_no_manifest(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    plan("db.t", NEW, catalog=catalog).execute()
    old_keys = set.union(*keys_of(catalog.load_table("db.t_old")))
    live = catalog.load_table("db.t")
    assert {kek.encrypted_by_id for kek in live.metadata.encryption_keys if kek.timestamp} == {NEW}
    assert live.metadata.metadata_log == [] or all(
        b'"hr"' not in path_of(entry.metadata_file).read_bytes() for entry in live.metadata.metadata_log
    )
    sealed = []
    for snapshot in live.metadata.snapshots:
        sealed += [snapshot.manifest_list, *(str(line.manifest_path) for line in snapshot.manifests(live.io))]
    assert len(set(sealed)) >= 8
    for location in set(sealed):
        stored = path_of(location).read_bytes()
        for key in old_keys:
            with pytest.raises(IntegrityError):
                open_bytes(stored, key.with_length(len(stored)))
    with small.connect() as without, pytest.raises(KeyNotFoundError):  # a KMS with the old key only
        content(without.load_table("db.t"))


def test_commits_of_others_meanwhile_are_in_the_new_table(small: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    other = small.connect(**KEYS)
    calls: list[Any] = []
    swap = catalog.swap_tables

    def late(*args: Any, **kwargs: Any) -> None:
        if len(calls) < 2:
            calls.append(other.load_table("db.t"))
            calls[-1].append(rows(50 + len(calls), 51 + len(calls)))
            calls[-1].delete("id = 5")
        swap(*args, **kwargs)

    monkeypatch.setattr(catalog, "swap_tables", late)
    result = plan("db.t", NEW, catalog=catalog).execute()
    assert result.conflicts == 2
    live = other.load_table("db.t")
    assert [row["id"] for row in content(live)] == sorted({*range(30), 51, 52} - {3, 5, 14})
    with pytest.raises((ValueError, ConflictError), match="UUID does not match"):
        calls[-1].append(rows(60, 61))  # loaded before the exchange
    plan("db.t", NEW, catalog=other, drop_old=True).execute()
    assert verify("db.t", catalog=other, orphan_age=NOW).execute().findings == ()


def test_names_keys_and_tables_that_cannot_be_right_are_refused_in_the_plan(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    catalog.create_table("db.plain", SCHEMA)
    make(catalog, "db.t_old")
    for arguments, words in (
        (("db.none", NEW), "no table db.none"),
        (("db.t", ""), "the new key id is empty"),
        (("db.plain", NEW), "not encrypted"),
        (("db.t", NEW), "there is a table db.t_old already"),
    ):
        with pytest.raises(ConfigError, match=words):
            plan(*arguments, catalog=catalog)
    with pytest.raises(ConfigError, match="the name of the table itself"):
        plan("db.t", NEW, catalog=catalog, keep_as="db.t")
    with pytest.raises(ConfigError, match=r"expected-key-id\.db\.t=hr"):
        plan("db.t", NEW, catalog=small.connect(**{"encryption.expected-key-id.db.t": "hr"}), keep_as="db.u")
    with pytest.raises(KeyNotFoundError):
        plan("db.t", "unknown", catalog=catalog, keep_as="db.u").execute()
    assert not catalog.table_exists("db.u")
    assert str(plan("db.t", "hr", catalog=catalog)).endswith("the table has this master key already")


def test_an_old_table_that_was_not_replaced_is_never_dropped(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    make(catalog, "db.t_old")
    with pytest.raises(PurgeRefusedError, match="has not taken its place"):
        plan("db.t", "hr", catalog=catalog, drop_old=True)
    assert len(content(catalog.load_table("db.t_old"))) == 28


def test_a_drop_says_what_stays_and_takes_nothing_that_is_live(small: Lake, tmp_path: Path) -> None:
    catalog = small.connect(**KEYS)
    before = content(make(catalog))
    kept = tmp_path / "keystore.age"
    kept.write_text("precious")
    plan("db.t", NEW, catalog=catalog).execute()
    live, old = catalog.load_table("db.t"), catalog.load_table("db.t_old")
    data = next(iter(live.scan().plan_files())).file.file_path
    named = [
        {"snapshot-id": each.snapshot_id, "statistics-path": path, "file-size-in-bytes": 1}
        | {"file-footer-size-in-bytes": 1, "blob-metadata": []}
        for each, path in zip(old.metadata.snapshots, (f"file://{kept}", data), strict=False)
    ]
    forged = old.metadata.model_copy(update={"statistics": [V3StatisticsFile.model_validate(each) for each in named]})
    old.metadata = forged
    gone = drop(catalog, old, live)
    assert (list(gone.kept), kept.read_text()) == ([f"file://{kept}"], "precious")
    assert "lies outside" in gone.kept[f"file://{kept}"]
    assert content(catalog.load_table("db.t")) == before


def test_an_old_table_with_a_second_name_is_not_dropped(small: Lake) -> None:
    catalog = small.connect(**KEYS)
    make(catalog)
    plan("db.t", NEW, catalog=catalog).execute()
    second = catalog.register_table("db.second", catalog.load_table("db.t_old").metadata_location)
    before = content(second)
    with pytest.raises(PurgeRefusedError, match=r"db\.second is the same table"):
        plan("db.t", NEW, catalog=catalog, drop_old=True).execute()
    assert content(catalog.load_table("db.second")) == before


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All tables of the corpus; new files go into a folder of their own."""
    folder = tmp_path_factory.mktemp("corpus")
    options = {"encryption.allow-plaintext-files": "true", "encryption.allow-missing-length": "true"}
    settings = {
        "uri": f"sqlite:///{folder}/c.db",
        "warehouse": f"file://{folder}",
        **corpus.KMS,
        **corpus.HOME,
        **options,
    }
    with EncryptedSqlCatalog("java", **settings) as catalog:
        catalog.create_namespace("db")
        for name, entry in corpus.TABLES.items():
            catalog.register_table(f"db.{name}", corpus.beside(entry, folder))
        yield catalog


@pytest.mark.parametrize("name", sorted(corpus.TABLES))
def test_a_table_by_another_writer_gets_another_master_key(name: str, java: Any) -> None:
    """The KMS of Java's tests has two keys, keyA and keyB."""
    entry = corpus.TABLES[name]
    new = "keyB" if entry["key-id"] == "keyA" else "keyA"
    plan(f"db.{name}", new, catalog=java, history=True).execute()
    live, old = java.load_table(f"db.{name}"), java.load_table(f"db.{name}_old")
    assert {kek.encrypted_by_id for kek in live.metadata.encryption_keys if kek.timestamp} == {new}
    assert live.metadata.refs == old.metadata.refs
    for snapshot in entry["snapshots"]:
        if snapshot["expect"] == "rows":
            number = {"snapshot_id": snapshot["snapshot-id"]}
            now, then = (table.scan(**number).to_arrow().to_pylist() for table in (live, old))
            assert repr(now) == repr(then)  # NaN is not equal to itself
    found = {finding.code for finding in verify(live, orphan_age=timedelta(days=99999)).execute().findings}
    assert found - {"foreign"} == LEFT.get(name, set())  # foreign: the metadata of the old table


# What Java 1.10, 1.11 and iceberg-rust left in data files and in the old table, which the job does not touch.
LEFT = {"old_plaintext_manifests": {"plaintext", "row-ids"}, "old_lost_vectors": {"no-key"}, "rust": {"no-length"}}
