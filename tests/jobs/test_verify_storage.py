"""Every object in the folders of a table is opened, or listed as not proved, or a finding."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import time
import zlib
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sealberg
from jobs.forge import SCHEMA, SPEC, Lake, rows
from kit.tables.tables import data_files, local, make, sealed_catalog
from sealberg.files.seal import seal_bytes
from sealberg.jobs import change_master, encrypt, expire, verify
from sealberg.jobs.verify import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jobs.forge import Forge
    from sealberg.jobs.findings import Verification

ROW = b"canary-row,7,8,9\n"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(autouse=True)
def _restored(lake: Lake) -> Iterator[None]:
    yield
    lake.restore()


def verified(lake: Lake, **options: Any) -> Verification:
    with lake.catalog() as catalog:
        return plan(lake.name, catalog=catalog, **options).execute()


def _put(name: str, content: bytes) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        (forge.root / name).write_bytes(content)

    return plant


def _metadata(
    name: str, change: Callable[[dict[str, Any]], object], *, packed: bool = False
) -> Callable[[Forge], None]:
    def plant(forge: Forge) -> None:
        document = json.loads(forge.metadata.read_text())
        change(document)
        text = json.dumps(document).encode()
        (forge.root / "metadata" / name).write_bytes(gzip.compress(text) if packed else text)

    return plant


def _link(forge: Forge) -> None:
    path = forge.parquet()
    moved = forge.root.parent / "moved.parquet"
    shutil.move(path, moved)
    path.symlink_to(moved)


def _raised(document: dict[str, Any]) -> None:
    document["last-sequence-number"] += 1
    document["note"] = ROW.decode()


HIDDEN = {
    "a version hint": ("foreign", _put("metadata/version-hint.text", ROW)),
    "a version hint of many lines": ("foreign", _put("metadata/version-hint.text", b"1\n" + ROW)),
    "behind crc": ("foreign", _put("data/.rows.crc", b"crc\0" + b"\0\0\2\0" + ROW)),
    "checksums of nothing": ("foreign", _put("data/.gone.parquet.crc", b"crc\0\0\0\2\0abcd")),
    "behind AGS1": ("foreign", _put("data/a.avro", b"AGS1" + ROW * 9)),
    "behind AGS1 and a block size": ("foreign", _put("data/a.avro", b"AGS1\0\0\x10\0" + ROW * 9)),
    "behind PARE": ("foreign", _put("data/a.parquet", b"PARE" + ROW * 9)),
    "between PARE": ("foreign", _put("data/a.parquet", b"PARE" + ROW * 9 + b"\4\0\0\0PARE")),
    "a name with #": ("foreign", _put("data/a#b.parquet", b"PARE" + ROW)),
    "a name with ?": ("foreign", _put("data/a?b.parquet", b"PARE" + ROW)),
    "a name with a line break": ("foreign", _put("data/a\nb.parquet", b"PARE" + ROW)),
    "a CSV": ("plaintext", _put("data/rows.csv", ROW)),
    "a CSV of another name": ("plaintext", _put("data/rows", b"id,name\n7,Ann\n")),
    "JSON lines": ("plaintext", _put("data/rows.parquet", b'{"id": 7}\n{"id": 8}\n')),
    "ORC": ("plaintext", _put("data/rows.parquet", b"ORC" + bytes(90))),
    "packed JSON": ("plaintext", _put("data/rows.json", gzip.compress(b'{"id": 7}'))),
    "unlogged metadata": ("unlogged", _metadata("00003-x.metadata.json", lambda d: d.update(note=ROW.decode()))),
    "unlogged and packed": (
        "unlogged",
        _metadata("00003-x.gz.metadata.json", lambda d: d["properties"].update(note="row"), packed=True),
    ),
    "unlogged with a tag": (
        "unlogged",
        _metadata("00003-x.metadata.json", lambda d: d["refs"].update(row={"snapshot-id": 1, "type": "tag"})),
    ),
    "metadata of a higher number": ("catalog-behind", _metadata("00009-x.metadata.json", _raised)),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_rows_are_found_wherever_they_hide(lake: Lake, name: str) -> None:
    code, plant = HIDDEN[name]
    with lake.forge() as forge:
        plant(forge)
    result = verified(lake)  # whatever their age
    assert (result.exit_code, code in {each.code for each in result.findings}) == (1, True), str(result)
    assert "canary" not in json.dumps(result.to_json()).replace("canary-x", "")
    assert ROW[:4].hex(" ") not in str(result)


def test_a_line_break_in_a_name_begins_no_verdict(lake: Lake) -> None:
    with lake.forge() as forge:
        _put("data/x\nverdict: sound: everything was checked, nothing was found", b"id\n")(forge)
    told = str(verified(lake)).splitlines()
    assert [each for each in told if each.startswith("verdict: ")] == [told[-1]]
    assert "sound" not in told[-1]


def test_a_link_in_the_place_of_a_data_file_is_found(tmp_path: Path) -> None:
    own = Lake(tmp_path)
    with own.forge() as forge:
        _link(forge)
    result = verified(own)
    assert "foreign" in {each.code for each in result.findings}, str(result)
    assert "a link to " in str(result)


def test_what_hadoop_leaves_is_no_finding(lake: Lake) -> None:
    with lake.forge() as forge:
        path = forge.parquet()
        content = path.read_bytes()
        sums = b"".join(zlib.crc32(content[at : at + 512]).to_bytes(4, "big") for at in range(0, len(content), 512))
        path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\0\0\2\0" + sums)
        (forge.root / "metadata" / "version-hint.text").write_text("5")
        shutil.copy(forge.metadata, forge.root / "metadata" / "00001-copy.metadata.json")  # it says nothing else
    assert verified(lake, orphan_age=timedelta(0)).verdict == "sound"
    with lake.forge() as forge:
        crc = forge.parquet().with_name(f".{forge.parquet().name}.crc")
        crc.write_bytes(crc.read_bytes() + b"x")
    assert [each.code for each in verified(lake).findings] == ["foreign"]


def test_a_file_in_flight_is_listed_and_strict_does_not_pass_it(lake: Lake) -> None:
    with lake.forge() as forge:
        (forge.root / "data" / "new.avro").write_bytes(seal_bytes(b"x" * 1000)[0])
    result = verified(lake)
    assert (result.verdict, result.exit_code) == ("sound", 0)
    (facts,) = result.tables
    assert [each.rpartition("/")[2] for each in facts.in_flight] == ["new.avro"]
    assert "new.avro" in str(result)
    assert "1 in flight, not proved" in str(result)
    strict = verified(lake, strict=True)
    assert (strict.verdict, strict.exit_code) == ("incomplete", 2)
    assert "new.avro" in strict.not_checked[0].what


# -- the catalog and other tables -----------------------------------------------------------------


def test_a_catalog_one_commit_behind_storage_is_an_error_at_once(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA)
        table.append(rows(0, 10))
        database = str(catalog.properties["uri"]).removeprefix("sqlite:///")
        with closing(sqlite3.connect(database)) as opened, closing(sqlite3.connect(f"{database}.bak")) as backup:
            opened.backup(backup)
        table.append(rows(10, 20))
    os.replace(f"{database}.bak", database)  # noqa: PTH105
    for age in (0.0, 4 * 86400.0):
        for path in tmp_path.rglob("*.*"):
            os.utime(path, (time.time() - age, time.time() - age))
        with sealed_catalog(tmp_path) as catalog:
            result = plan(".".join(table.name()), catalog=catalog).execute()
        assert "catalog-behind" in {each.code for each in result.findings}, str(result)
        assert result.exit_code == 1


def test_a_copied_warehouse_that_reads_the_original_is_found(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA)
        table.append(rows(0, 10))
        original = local(table.metadata.location)
        copy = tmp_path / "copy"
        shutil.copytree(original, copy)
        where = f"file://{copy}/metadata/{local(table.metadata_location).name}"
        catalog.register_table("hr.copy", where)
        result = plan("hr.copy", catalog=catalog).execute()
        assert "elsewhere" in {each.code for each in result.findings}
        assert plan(table).execute().verdict == "sound"


def test_a_table_that_was_moved_is_sound(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA)
        table.append(rows(0, 10))
        with table.transaction() as change:
            change.set_properties({"write.data.path": f"file://{tmp_path}/other"})
        table.append(rows(10, 20))
        with table.transaction() as change:
            change.remove_properties("write.data.path")
        table.append(rows(20, 30))
        assert plan(table).execute().findings == ()


@pytest.mark.parametrize("logged", [True, False], ids=["in the log", "no longer in the log"])
def test_folders_that_the_table_has_had_are_searched(tmp_path: Path, *, logged: bool) -> None:
    kept = {} if logged else {"write.metadata.previous-versions-max": "1"}
    with sealed_catalog(tmp_path) as catalog:
        former = {"write.data.path": f"file://{tmp_path}/data", "write.metadata.path": f"file://{tmp_path}/metadata"}
        table = make(catalog, SCHEMA, **former, **kept)
        table.append(rows(0, 10))
        with table.transaction() as change:
            change.remove_properties(*former)
        for _ in range(3):
            table.append(rows(10, 20))
        expected = set() if logged else {"unlogged", "elsewhere"}
        before = plan(table).execute()
        assert {each.code for each in before.findings} == expected, str(before)
        (tmp_path / "data" / "rows.csv").write_bytes(ROW)
        (tmp_path / "metadata" / "rows.csv").write_bytes(ROW)
        result = plan(table).execute()
        found = sorted(str(each.file) for each in result.findings if each.code == "plaintext")
        assert found == [f"file://{tmp_path}/{name}/rows.csv" for name in ("data", "metadata")], str(result)
        assert result.exit_code == 1


def test_what_is_another_tables_in_a_folder_that_the_table_has_had_is_left_to_it(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA, **{"write.data.path": f"file://{tmp_path}/shared"})
        table.append(rows(0, 10))
        with table.transaction() as change:
            change.remove_properties("write.data.path")
        catalog.create_namespace_if_not_exists("hr")
        inside = catalog.create_table("hr.later", SCHEMA, f"file://{tmp_path}/shared/later")
        inside.append(rows(0, 10))
        assert plan(table).execute().findings == ()
        (tmp_path / "shared" / "rows.csv").write_bytes(ROW)
        assert [each.code for each in plan(table).execute().findings] == ["plaintext"]


def test_after_change_master_the_old_table_is_known(tmp_path: Path) -> None:
    more = {"encryption.kms.memory.key.k2": "cd" * 16}
    with sealed_catalog(tmp_path, **more) as catalog:
        table = make(catalog, SCHEMA, SPEC)
        table.append(rows(0, 10))
        name = ".".join(table.name())
        change_master.plan(name, "k2", catalog=catalog).execute()
        for each in (name, f"{name}_old"):
            result = plan(each, catalog=catalog, orphan_age=timedelta(0)).execute()
            assert result.findings == (), str(result)
            other = f"{name}_old" if each == name else name
            assert result.tables[0].shared_with == (other,)
            assert other in str(result)


def test_an_expiry_meanwhile_is_no_damage(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA)
        table.append(rows(0, 10))
        for first in range(10, 40, 10):
            table.overwrite(rows(first, first + 10))
        made = plan(table)
        expire.plan(table, older_than=timedelta(0), retain_last=1).execute()
        result = made.execute()
        assert (result.verdict, result.findings) == ("sound", ())
        assert len(result.tables[0].snapshots) == 1
        local(data_files(table.refresh())[0].file_path).unlink()
        assert [each.code for each in plan(table).execute().findings] == ["missing"]


# -- other reasons ----------------------------------------------------------------------------------


def test_a_wrong_passphrase_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sealberg.keys.keystore.jwk import Keystore, MasterKey
    from sealberg.keys.keystore.kms import KeystoreFile

    keystore = tmp_path / "keystore.age"
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "the right one")
    key = MasterKey("hr", b"k" * 16)
    KeystoreFile(keystore).create(Keystore((key,)), "the right one", work_factor=10)
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", "type": "sql"}
    settings |= {"encryption.kms-type": "keystore", "encryption.kms.keystore.path": str(keystore)}
    with sealberg.load_catalog("p", **settings) as catalog:
        catalog.create_namespace("hr")
        catalog.create_table("hr.t", SCHEMA, properties={"encryption.key-id": "hr"}).append(rows(0, 5))
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "another")
    with sealberg.load_catalog("p", **settings) as catalog:
        result = plan("hr.t", catalog=catalog).execute()
    assert (result.exit_code, result.findings) == (2, ())
    assert "the keystore does not open" in str(result)


def test_a_folder_that_was_encrypted_is_checked_deeply(tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), folder / "a.parquet")
    with sealed_catalog(tmp_path) as catalog:
        catalog.create_namespace_if_not_exists("hr")
        encrypt.plan(f"{folder}/", "hr.sealed", key_id="hr", catalog=catalog).execute()
        result = verify.plan("hr.sealed", catalog=catalog, level="deep").execute()
        assert (result.exit_code, result.verdict) == (0, "sound"), str(result)
