"""shred: nothing opens a table any more, whoever tries, and a run that was killed is continued."""

from __future__ import annotations

import base64
import binascii
import getpass
import gzip
import io
import json
import re
import shutil
import socket
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import zstandard
from click.testing import CliRunner

import sealberg
from kit.programs import killed
from kit.programs.key_work import shred_work
from kit.servers.postgres import MEMORY_KMS
from kit.tables.lives import SCHEMA, lived, rows
from sealberg.cli.main import cli
from sealberg.errors import ConfigError, PurgeRefusedError, SealbergError, UnsupportedError
from sealberg.files.ags1_reader import Ags1Reader
from sealberg.files.file_io import ENCRYPTED_MAGICS
from sealberg.files.locations import normal
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs import record as records
from sealberg.jobs import shred
from sealberg.keys.keystore.kms import KeystoreFile
from sealberg.keys.kms.memory import MemoryKms

if TYPE_CHECKING:
    from sealberg.keys.kms.client import KmsClient

MASTER = b"\xab" * 16


def settings(folder: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w", **MEMORY_KMS}


def connect(folder: Path) -> Any:
    return sealberg.load_catalog("test", **settings(folder))


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    with connect(tmp_path) as opened:
        opened.create_namespace("hr")
        yield opened


@pytest.fixture
def table(catalog: Any) -> Any:
    return lived(catalog)


def objects(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def openable(folder: Path, kms: KmsClient) -> set[int]:
    """The snapshots that somebody opens who has the KMS and every object: by any file that is not sealed."""
    found: set[int] = set()
    for path in objects(folder):
        if path.read_bytes()[:4] in ENCRYPTED_MAGICS:
            continue
        try:
            table: Any = sealberg.open_table(f"file://{path}", kms=kms)
        except (SealbergError, OSError, ValueError):
            continue
        for snapshot in table.metadata.snapshots:
            try:
                table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            except (SealbergError, OSError):
                continue
            found.add(snapshot.snapshot_id)
    return found


def keys_left(folder: Path, kms: KmsClient) -> list[bytes]:
    """Every key that the KMS gives for any piece of base64 in any object that is not sealed."""
    found = []
    for path in objects(folder):
        content = path.read_bytes()
        if content[:4] in ENCRYPTED_MAGICS:
            continue
        for text in re.findall(rb"[A-Za-z0-9+/]{40,}={0,2}", content):
            try:
                found.append(kms.unwrap(base64.b64decode(text), "hr"))
            except (SealbergError, binascii.Error):
                continue
    return found


def test_no_object_holds_a_key_and_nobody_with_the_kms_opens_a_snapshot(table: Any, catalog: Any) -> None:
    folder, kms = Path(table.location().removeprefix("file://")), MemoryKms({"hr": MASTER})
    count = len(table.metadata.snapshots)
    assert len(openable(folder, kms)) == count
    assert keys_left(folder, kms)
    sealed = [path for path in objects(folder) if path.read_bytes()[:4] in ENCRYPTED_MAGICS]
    record = shred.plan("hr.people", catalog=catalog).execute()
    assert (record.exit_code, record.snapshots, record.after) == (0, count, ())
    assert [(each.master_key_id, each.snapshots) for each in record.before] == [("hr", count)]
    assert not [path for path in objects(folder) if b"encryption-keys" in path.read_bytes()]
    assert openable(folder, kms) == set()
    assert keys_left(folder, kms) == []
    assert all(path.exists() for path in sealed)  # what is left is noise
    assert connect(folder.parents[2]).load_table("hr.people").scan().to_arrow().num_rows == 0


def test_metadata_that_nobody_names_lose_their_keys_too(table: Any, catalog: Any) -> None:
    folder = Path(table.location().removeprefix("file://"))
    current = Path(table.metadata_location.removeprefix("file://"))
    staged = current.with_name("00099-of-a-killed-writer.metadata.json")
    staged.write_bytes(current.read_bytes())
    copy = folder / "backup.bin"
    copy.write_bytes(b"x" * 9_000_000 + current.read_bytes())
    record = shred.plan("hr.people", catalog=catalog).execute()
    assert not staged.exists()
    assert record.exit_code == 1  # not ours to delete, and told
    assert [each for each in record.findings if "backup.bin" in each]


def test_whatever_holds_the_metadata_in_another_form_is_found(table: Any, catalog: Any) -> None:
    folder = Path(table.location().removeprefix("file://"))
    text = Path(table.metadata_location.removeprefix("file://")).read_bytes()
    step = len(text) // 70
    members = b"".join(gzip.compress(text[at : at + step]) for at in range(0, len(text), step))
    sealed = next(path for path in objects(folder) if path.read_bytes()[:4] == b"AGS1")
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m.json", text)
    copies = {
        "magic.bin": b"AGS1" + text,
        "pare.bin": b"PARE" + text + len(text).to_bytes(4, "little") + b"PARE",
        "members.metadata.json.gz": members,
        "copy.zst": zstandard.compress(text),
        "copy.zip": zipped.getvalue(),
        "utf16.json": b"\xff\xfe" + text.decode().encode("utf-16-le"),
        "base64.txt": base64.b64encode(text),
        "version-hint.text": text,
        ".v1.metadata.json.crc": b"crc\0" + text,
    }
    for name, content in copies.items():
        (folder / "metadata" / name).write_bytes(content)
    (folder / "data" / "again.avro").write_bytes(sealed.read_bytes())  # the form is no proof
    record = shred.plan("hr.people", catalog=catalog).execute()
    assert record.exit_code == 2
    found = "\n".join(record.findings)
    left = [name for name in copies if (folder / "metadata" / name).exists()]
    assert [name for name in left if name not in found] == []
    assert copies.keys() - left == {"version-hint.text"}, "metadata of the table by its content, whatever its name"
    assert [each for each in record.not_proved if "again.avro" in each]
    assert "shredded and checked" not in str(record)


def test_a_plaintext_manifest_is_a_finding(table: Any, catalog: Any) -> None:
    """Iceberg Java 1.11 leaves them: they hold the raw keys of data files."""
    folder = Path(table.location().removeprefix("file://"))
    manifest = table.current_snapshot().manifests(table.io)[0]
    with Ags1Reader(normal(str(manifest.manifest_path)), KeyMetadata.decode(manifest.key_metadata)) as stream:
        (folder / "metadata" / "optimized-m0.avro").write_bytes(stream.read())
    record = shred.plan("hr.people", catalog=catalog).execute()
    assert (record.exit_code, ["optimized-m0.avro" in each for each in record.findings]) == (1, [True])
    assert "NOT SHREDDED" in str(record)


def test_metadata_of_former_folders_lose_their_keys(catalog: Any, tmp_path: Path) -> None:
    kms = MemoryKms({"hr": MASTER})
    given = {
        "encryption.key-id": "hr",
        "write.metadata.path": f"file://{tmp_path}/former",
        "write.metadata.previous-versions-max": "1",
    }
    table: Any = catalog.create_table("hr.moved", SCHEMA, properties=given)
    table.append(rows(1))
    table.append(rows(2))
    with table.transaction() as change:
        change.remove_properties("write.metadata.path")
    for number in range(3):
        table.append(rows(number))
    assert openable(tmp_path / "former", kms), "the log does not name them any more"
    record = shred.plan("hr.moved", catalog=catalog).execute()
    assert (record.exit_code, record.findings, record.not_proved) == (0, (), ())
    assert openable(tmp_path, kms) == set()
    assert keys_left(tmp_path / "former", kms) == []


def test_a_file_that_was_exchanged_after_the_proof_is_not_proved(table: Any, catalog: Any) -> None:
    folder = Path(table.location().removeprefix("file://"))
    made = shred.plan("hr.people", catalog=catalog)
    data = next(path for path in objects(folder) if path.suffix == ".parquet" and path.read_bytes()[:4] == b"PARE")
    data.write_bytes(data.read_bytes() + b"more")
    record = made.execute()
    assert record.exit_code != 0
    assert [each for each in (*record.findings, *record.not_proved) if data.name in each]


def test_a_second_shredding_knows_what_the_first_has_opened(table: Any, catalog: Any) -> None:
    folder = Path(table.location().removeprefix("file://"))
    assert [shred.plan("hr.people", catalog=catalog).execute().exit_code for _ in range(2)] == [0, 0]
    catalog.load_table("hr.people").append(rows(5))
    assert shred.plan("hr.people", catalog=catalog).execute().exit_code == 0
    data = next(path for path in objects(folder) if path.suffix == ".parquet")
    data.with_name("copy.parquet").write_bytes(data.read_bytes())
    assert shred.plan("hr.people", catalog=catalog).execute().exit_code == 2


def test_who_approves_is_another_one(table: Any, catalog: Any, tmp_path: Path) -> None:
    assert table.metadata.snapshots
    login = getpass.getuser()
    for name in (login, login.upper(), f" {login} ", f"{login}@{socket.gethostname()}"):
        with pytest.raises(ConfigError, match="who runs this command"):
            shred.plan("hr.people", catalog=catalog, record=tmp_path / "r.json", approved_by=name)


def test_a_commit_that_comes_after_the_keys_is_told(
    table: Any, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.metadata.snapshots
    real = shred._delete_metadata

    def late(target: Any, *more: Any) -> Any:
        with connect(tmp_path) as other:
            other.load_table("hr.people").append(rows(77))
        return real(target, *more)

    monkeypatch.setattr(shred, "_delete_metadata", late)
    record = shred.plan("hr.people", catalog=catalog).execute()
    assert record.exit_code == 2, "nobody has opened the files of that commit"
    assert "committed 1 snapshots after" in record.findings[0]
    assert catalog.load_table("hr.people").scan().to_arrow()["id"].to_pylist() == [77]


def test_what_others_use_is_not_shredded(table: Any, catalog: Any) -> None:
    with pytest.raises(UnsupportedError, match="cannot delete the master key hr"):
        shred.plan("hr.people", catalog=catalog, delete_master_key_after=7)
    with pytest.raises(ConfigError, match="is a namespace"):
        shred.plan("hr", catalog=catalog)
    catalog.create_namespace("copies")
    catalog.register_table("copies.people", table.metadata_location)
    with pytest.raises(PurgeRefusedError, match=r"copies\.people shares its files"):
        shred.plan("hr.people", catalog=catalog)
    catalog.drop_table("copies.people")
    table.transaction().set_properties({"gc.enabled": "false"}).commit_transaction()
    with pytest.raises(PurgeRefusedError, match="GC is disabled"):
        shred.plan("hr.people", catalog=catalog)


def test_the_master_key_goes_if_no_other_table_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "correct horse")
    path = tmp_path / "keys.age"
    done = CliRunner().invoke(
        cli, ["keystore", "create", "--path", str(path), "--key", "hr", "--key", "other", "--work-factor", "10"]
    )
    assert done.exit_code == 0
    own = {"encryption.kms-type": "keystore", "encryption.kms.keystore.path": str(path)}
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **own}
    with sealberg.load_catalog("test", **given) as catalog:
        catalog.create_namespace("hr")
        lived(catalog)
        lived(catalog, "hr.second")
        with pytest.raises(PurgeRefusedError, match=r"the table hr\.second uses it too"):
            shred.plan("hr.people", catalog=catalog, delete_master_key_after=0)
        catalog.purge_table("hr.second")
        with pytest.raises(ConfigError, match=r"is 7 days, and the waiting time of the KMS \(keystore\) for hr is 0"):
            shred.plan("hr.people", catalog=catalog, delete_master_key_after=7)
        record = shred.plan("hr.people", catalog=catalog, delete_master_key_after=0).execute()
    assert record.exit_code == 0
    assert record.master_key == {"key": "hr", "path": str(path), "state": "deleted"}
    left = KeystoreFile(path).read("correct horse")
    assert [key.id for key in left.keys] == ["other"]


def configure(monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, str]) -> None:
    for key, value in given.items():
        known = key.upper().replace("-", "_").replace(".", "__")
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{known}", value)


def test_the_master_key_stays_while_a_table_of_any_configured_catalog_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "correct horse")
    for name in ("keys", "others"):
        made = ["keystore", "create", "--path", f"{tmp_path}/{name}.age", "--key", "hr", "--work-factor", "10"]
        assert CliRunner().invoke(cli, made).exit_code == 0

    def given(name: str, keys: str) -> dict[str, str]:
        own = {"encryption.kms-type": "keystore", "encryption.kms.keystore.path": f"{tmp_path}/{keys}.age"}
        return {
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/{name}.db",
            "warehouse": f"file://{tmp_path}/{name}",
            **own,
        }

    for name, keys in (("one", "keys"), ("two", "keys"), ("three", "others")):
        configure(monkeypatch, name, given(name, keys))
    for name in ("one", "two", "three"):
        with sealberg.load_catalog(name) as catalog:
            catalog.create_namespace("hr")
            lived(catalog)
    with pytest.raises(PurgeRefusedError, match=r"the table two: hr\.people uses it too"):
        shred.plan("hr.people", catalog="one", delete_master_key_after=0)
    with sealberg.load_catalog("two") as catalog:
        catalog.drop_table("hr.people")
    monkeypatch.setenv("PYICEBERG_CATALOG__FOUR__TYPE", "rest")
    monkeypatch.setenv("PYICEBERG_CATALOG__FOUR__URI", "http://127.0.0.1:9")
    with pytest.raises(PurgeRefusedError, match="any table of the catalog four may use it: it does not open"):
        shred.plan("hr.people", catalog="one", delete_master_key_after=0)
    monkeypatch.setenv("PYICEBERG_CATALOG__FOUR__ENCRYPTION__KMS_TYPE", "vault")
    record = shred.plan("hr.people", catalog="one", delete_master_key_after=0).execute()  # three has another keystore
    assert (record.exit_code, record.master_key and record.master_key["state"]) == (0, "deleted")


# -- killed, and the record -----------------------------------------------------------------------


def make(folder: Path) -> None:
    with connect(folder) as catalog:
        catalog.create_namespace("hr")
        table: Any = catalog.create_table("hr.people", SCHEMA, properties={"encryption.key-id": "hr"})
        for number in range(3):
            table.append(rows(number))


def test_a_run_that_was_killed_anywhere_is_continued_and_remembers_what_was_there(tmp_path: Path) -> None:
    folder, copy, kms = tmp_path / "lake", tmp_path / "copy", MemoryKms({"hr": MASTER})
    folder.mkdir()
    make(folder)
    shutil.copytree(folder, copy)
    arguments = (settings(folder), "hr.people", folder / "record.json")
    operations = killed.run(shred_work, *arguments).operations
    for at in killed.points(operations, 12, seed=21):
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        assert killed.run(shred_work, *arguments, at=at).killed
        ended = killed.run(shred_work, *arguments)
        if ended.error:  # the first run had finished, and its record is not overwritten
            assert "not the record of this shredding" in ended.error
        record = json.loads((folder / "record.json").read_text())
        assert (record["state"], record["exit_code"], record["before"][0]["snapshots"]) == ("finished", 0, 3)
        assert openable(folder / "w", kms) == set()
        assert keys_left(folder / "w", kms) == []


def test_the_record_says_who_approved_and_cannot_be_changed_unnoticed(table: Any, catalog: Any, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with pytest.raises(ConfigError, match="--record needs --approved-by"):
        shred.plan("hr.people", catalog=catalog, record=path)
    with pytest.raises(ConfigError, match=r"expected a file FILE\.json"):
        shred.plan("hr.people", catalog=catalog, record=tmp_path / "record.html", approved_by="Eve")
    made = shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve <script>")
    made.execute()
    record = json.loads(path.read_text())
    assert (record["approved_by"], record["table_uuid"]) == ("Eve <script>", str(table.metadata.table_uuid))
    page = path.with_suffix(".html").read_text()
    assert "Shredded and checked" in page
    assert "<script>" not in page
    with pytest.raises(ConfigError, match="not the record of this shredding"):
        shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve")


def test_a_record_is_sealed_and_every_change_of_it_is_found(
    table: Any, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.metadata.snapshots
    configure(monkeypatch, "test", settings(tmp_path))
    path = tmp_path / "record.json"
    shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve").execute()

    def checked(*more: str) -> int:
        return int(CliRunner().invoke(cli, ["verify-record", str(path), *more]).exit_code)

    assert [checked(), checked("--key", "hr"), checked("--key", "audit")] == [0, 0, 1]
    text = path.read_text()
    facts = json.loads(text)
    for change in ({"approved_by": "Mallory"}, {"exit_code": 1}, {"findings": ["x"]}, {"more": 1}, {"sha256": "00"}):
        path.write_text(json.dumps(facts | change))
        assert checked() == 1
    forged = {**facts, "approved_by": "Mallory"}
    path.write_text(json.dumps(forged | {"sha256": records.digest_of(forged).hex()}))
    assert checked() == 1, "the digest is right, and the seal is of another record"
    key = table.metadata.encryption_keys.keks("hr")[0]
    reader = {"kms": "memory", "key": "hr", "wrapped": base64.b64encode(key.encrypted_key_metadata).decode()}
    path.write_text(json.dumps({**facts, "seal": reader | {"properties": {}}}))
    assert checked() == 1, "a wrapped key of the table is no seal"
    path.write_text(json.dumps({name: value for name, value in facts.items() if name != "seal"}))
    assert checked() == 2
    path.write_text(text.replace('"approved_by"', '"approved_by": "Mallory",\n  "approved_by"'))
    assert isinstance(CliRunner().invoke(cli, ["verify-record", str(path)]).exception, ConfigError)
    path.write_text(text)
    monkeypatch.delenv("PYICEBERG_CATALOG__TEST__ENCRYPTION__KMS__MEMORY__KEY__HR")
    assert checked("--catalog", "test") == 2, "the key of the seal is gone"


def test_the_record_of_a_run_that_was_stopped_is_not_taken_if_it_was_changed(
    table: Any, catalog: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert table.metadata.snapshots
    path = tmp_path / "record.json"
    made = shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve")

    def stop(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(shred, "_delete_metadata", stop)
        made.execute()
    facts = json.loads(path.read_text())
    changed = {**facts, "before": []}
    path.write_text(json.dumps(changed | {"sha256": records.digest_of(changed).hex()}))
    with pytest.raises(ConfigError, match="is not as it was sealed"):
        shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve")
    path.write_text(json.dumps(facts))
    done = shred.plan("hr.people", catalog=catalog, record=path, approved_by="Eve").execute()
    assert (done.exit_code, done.before[0].snapshots) == (0, 9)


# -- the command line -----------------------------------------------------------------------------


@pytest.fixture
def configured(tmp_path: Path, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert table.metadata.snapshots
    for name, value in settings(tmp_path).items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__TEST__{name.upper().replace('-', '_').replace('.', '__')}", value)


@pytest.mark.usefixtures("configured")
def test_without_a_terminal_the_name_must_be_given_twice(catalog: Any) -> None:
    def say(*arguments: str) -> Any:
        return CliRunner().invoke(cli, ["shred", "hr.people", "--catalog", "test", *arguments])

    assert "DESTROY ACCESS" in say("--dry-run").output
    for few in ((), ("--yes",), ("--confirm", "hr.people"), ("--yes", "--confirm", "hr.peopel")):
        assert isinstance(say(*few).exception, ConfigError)
    assert len(catalog.load_table("hr.people").metadata.snapshots) == 9
    done = say("--yes", "--confirm", "hr.people", "--json")
    assert (done.exit_code, json.loads(done.stdout)["state"]) == (0, "finished")


@pytest.mark.usefixtures("configured")
def test_on_a_terminal_the_name_must_be_typed_also_with_yes(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sealberg.cli.shred._is_terminal", lambda: True)

    def say(typed: str) -> Any:
        return CliRunner().invoke(cli, ["shred", "hr.people", "--catalog", "test", "--yes"], input=f"{typed}\n")

    for wrong in ("y", "yes", "hr.peple", "people"):
        assert "nothing was destroyed" in str(say(wrong).exception)
    assert len(catalog.load_table("hr.people").metadata.snapshots) == 9
    assert say("hr.people").exit_code == 0
    assert catalog.load_table("hr.people").metadata.snapshots == []
