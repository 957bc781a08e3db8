"""The keystore file and the two clients that use one: the table of failures, and all that may go wrong with a file."""

from __future__ import annotations

import base64
import json
import os
import pickle
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyrage
import pytest

import sealberg
from kit.servers.kms import KEY, KmsConformance, Provoked, Rig
from sealberg.errors import (
    AccessDeniedError,
    AuthenticationError,
    ConfigError,
    FormatError,
    KeyNotFoundError,
    UnsupportedError,
    WrongKeyError,
)
from sealberg.keys.keystore import age, pkcs12, private_file
from sealberg.keys.keystore import kms as keystore
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import FileKms, JavaKeystoreKms, KeystoreFile, KeystoreKms, PassphraseSource
from sealberg.keys.kms.client import client_from_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSPHRASE = "correct horse"
LOW = 2
CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HR = MasterKey.made("hr", bytes(range(32)), CREATED)
OTHER = MasterKey.made("other", bytes(16), None)
NO_SERVER = "there is no server"
NO_PROVIDER = {
    "disabled": "a file has no switch",
    "destroyed": "a removed key is simply not found",
    "throttled": NO_SERVER,
    "server_error": NO_SERVER,
    "timeout": NO_SERVER,
    "refused": NO_SERVER,
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", PASSPHRASE)
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path))
    monkeypatch.setenv("KEYSTORE_PASSWORD", PASSPHRASE)


@pytest.fixture
def file(tmp_path: Path) -> KeystoreFile:
    made = KeystoreFile(tmp_path / "keystore.age")
    made.create(Keystore((HR, OTHER)), PASSPHRASE, work_factor=LOW)
    return made


class FileRig(Rig):
    """What the two clients fail at alike."""

    key_id = "hr"
    client: FileKms
    impossible = NO_PROVIDER

    @contextmanager
    def provoke(self, failure: str) -> Iterator[Provoked]:
        wrapped = self.client.wrap(KEY, "hr")
        if failure == "not_found":
            yield Provoked(self.client, "nobody", wrapped)
        elif failure == "denied":
            self.client.path.chmod(0o640)
            yield Provoked(pickle.loads(pickle.dumps(self.client)), "hr", wrapped)
        elif failure == "wrong_key":
            yield Provoked(self.client, "other", wrapped)
        elif failure == "corrupt":
            yield Provoked(self.client, "hr", wrapped[:-1] + bytes([wrapped[-1] ^ 1]))
        elif failure == "misconfigured":
            self.misconfigure()

    def misconfigure(self) -> None:
        kind = {"encryption.kms-type": "keystore", "encryption.kms.keystore.passphrase": PASSPHRASE}
        client_from_properties(kind)


class TestKeystoreKms(KmsConformance):
    @pytest.fixture
    def rig(self, file: KeystoreFile) -> FileRig:
        rig = FileRig()
        rig.client = KeystoreKms(file.path, PassphraseSource())
        return rig


class JavaRig(FileRig):
    impossible = {**NO_PROVIDER, "denied": "Java takes a store of any mode"}

    def misconfigure(self) -> None:
        client_from_properties({"encryption.kms-impl": "org.apache.iceberg.encryption.KeyStoreKmsClient"})


class TestJavaKeystoreKms(KmsConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> JavaRig:
        store = tmp_path / "store.p12"
        store.write_bytes(pkcs12.seal((HR, OTHER), PASSPHRASE, iterations=3))
        properties = {
            "encryption.kms-impl": "org.apache.iceberg.encryption.KeyStoreKmsClient",
            "kms.client.keystore.path": str(store),
        }
        rig = JavaRig()
        client = client_from_properties(properties)
        assert isinstance(client, JavaKeystoreKms)
        rig.client = client
        return rig

    def test_key_ids_are_compared_in_lower_case(self, rig: JavaRig) -> None:
        assert rig.client.unwrap(rig.client.wrap(KEY, "Hr"), "hR") == KEY

    def test_missing_password_is_told_by_the_name_of_its_variable(
        self, rig: JavaRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("KEYSTORE_PASSWORD")
        for client in (rig.client, pickle.loads(pickle.dumps(rig.client))):
            with pytest.raises(ConfigError, match="KEYSTORE_PASSWORD"):
                client.wrap(KEY, "hr")


# The client


class TestClient:
    def test_is_found_by_its_type_at_the_default_place(self, file: KeystoreFile) -> None:
        client = client_from_properties({"encryption.kms-type": "keystore"})
        assert isinstance(client, KeystoreKms)
        assert client.path == file.path == keystore.default_path()
        assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY

    def test_default_place_is_in_the_home_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("SEALBERG_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        assert keystore.default_path() == tmp_path / ".sealberg" / "keystore.age"

    def test_passphrase_file_comes_before_the_environment(self, file: KeystoreFile, tmp_path: Path) -> None:
        secret = tmp_path / "secret"
        secret.write_text("another\n")
        secret.chmod(0o600)
        client = KeystoreKms.from_properties({"encryption.kms.keystore.passphrase-file": str(secret)})
        with pytest.raises(WrongKeyError):
            client.wrap(KEY, "hr")
        secret.write_text(f"{PASSPHRASE}\r\n")
        assert client.wrap(KEY, "hr")

    def test_passphrase_comes_from_the_variable_that_is_named(
        self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SEALBERG_PASSPHRASE")
        monkeypatch.setenv("ELSEWHERE", PASSPHRASE)
        assert KeystoreKms.from_properties({"encryption.kms.keystore.passphrase-env": "ELSEWHERE"}).wrap(KEY, "hr")

    @pytest.mark.parametrize("value", [None, ""])
    def test_missing_passphrase_names_the_three_ways(
        self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch, value: str | None
    ) -> None:
        if value is None:
            monkeypatch.delenv("SEALBERG_PASSPHRASE")
        else:
            monkeypatch.setenv("SEALBERG_PASSPHRASE", value)
        with pytest.raises(ConfigError) as caught:
            KeystoreKms.from_properties({}).wrap(KEY, "hr")
        for way in ("encryption.kms.keystore.passphrase-file", "SEALBERG_PASSPHRASE", "terminal"):
            assert way in str(caught.value)

    def test_somebody_is_asked_once_when_nothing_else_gives_it(
        self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SEALBERG_PASSPHRASE")
        asked = []

        def ask() -> str:
            asked.append(1)
            return PASSPHRASE

        client = KeystoreKms.from_properties({}).asking(ask)
        client.unwrap(client.wrap(KEY, "hr"), "hr")
        assert asked == [1]
        with pytest.raises(ConfigError, match="terminal"):  # the other process has nobody to ask
            pickle.loads(pickle.dumps(client)).wrap(KEY, "hr")

    def test_passphrase_in_place_of_a_variables_name_is_not_shown(self) -> None:
        with pytest.raises(ConfigError) as caught:
            KeystoreKms.from_properties({"encryption.kms.keystore.passphrase-env": PASSPHRASE})
        assert PASSPHRASE not in str(caught.value)

    @pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines\n"])
    def test_passphrase_file_must_have_one_line(self, tmp_path: Path, content: bytes) -> None:
        secret = tmp_path / "secret"
        secret.write_bytes(content)
        secret.chmod(0o600)
        with pytest.raises(ConfigError, match="passphrase file"):
            PassphraseSource(secret).get()

    def test_file_is_opened_late_and_once(self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
        opened = []
        real = age.open

        def count(sealed: bytes, passphrase: str) -> bytes:
            opened.append(1)
            return real(sealed, passphrase)

        monkeypatch.setattr(age, "open", count)
        client = KeystoreKms(file.path, PassphraseSource())
        assert opened == []
        threads = [threading.Thread(target=client.wrap, args=(KEY, "hr")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        words = "existing keys: hr, other; restore the key from a backup"
        with pytest.raises(KeyNotFoundError, match=f"{words}.*never was, `sealberg keystore add nobody`"):
            client.wrap(KEY, "nobody")
        with pytest.raises(KeyNotFoundError, match=words) as lost:
            client.unwrap(bytes(60), "nobody")
        assert "keystore add" not in str(lost.value)
        assert opened == [1]

    def test_key_that_was_added_meanwhile_is_found(self, file: KeystoreFile) -> None:
        client = KeystoreKms(file.path, PassphraseSource())
        client.wrap(KEY, "hr")
        file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        assert client.unwrap(client.wrap(KEY, "late"), "late") == KEY

    def test_a_destroyed_key_is_dead_in_a_client_that_runs(self, file: KeystoreFile) -> None:
        client = KeystoreKms(file.path, PassphraseSource())
        wrapped = client.wrap(KEY, "hr")
        file.destroy(PASSPHRASE, "hr")
        with pytest.raises(KeyNotFoundError, match="restore"):
            client.unwrap(wrapped, "hr")
        with pytest.raises(KeyNotFoundError, match="restore"):
            client.wrap(KEY, "hr")
        assert client.wrap(KEY, "other")
        file.path.unlink()
        with pytest.raises(ConfigError, match="no such file; restore it from a copy"):
            client.wrap(KEY, "other")

    def test_pickle_carries_no_key_and_no_passphrase(self, file: KeystoreFile) -> None:
        client = KeystoreKms(file.path, PassphraseSource())
        client.wrap(KEY, "hr")
        pickled = pickle.dumps(client)
        assert HR.key not in pickled
        assert PASSPHRASE.encode() not in pickled
        assert set(client.__getstate__()) == {"path", "passphrase"}

    def test_nothing_shows_a_key(self, file: KeystoreFile) -> None:
        client = KeystoreKms(file.path, PassphraseSource())
        client.wrap(KEY, "hr")
        store = file.read(PASSPHRASE)
        shown = f"{client!r} {client._loaded!r} {store!r} {store} {HR!r} {client.describe('hr')}"
        for secret in (HR.key.hex(), repr(HR.key), base64.urlsafe_b64encode(HR.key).decode()[:42], PASSPHRASE):
            assert secret not in shown
        assert hash(HR) == hash(MasterKey.made("hr", bytes(16), None))  # of the id alone

    def test_describe_tells_what_list_tells(self, file: KeystoreFile) -> None:
        told = KeystoreKms(file.path, PassphraseSource()).describe("hr")
        assert told == {"path": str(file.path), "length": "32", "created": "2026-01-02T03:04:05+00:00"}


# The file


class TestFile:
    def test_rage_opens_it_and_finds_a_jwk_set(self, file: KeystoreFile) -> None:
        """What somebody does who has lost this library."""
        found = json.loads(pyrage.passphrase.decrypt(file.path.read_bytes(), PASSPHRASE))
        k = base64.urlsafe_b64encode(HR.key).decode().rstrip("=")
        assert found["keys"][0] == {"kty": "oct", "kid": "hr", "k": k, "alg": "A256GCMKW", "iat": 1767323045}
        assert found["keys"][1]["alg"] == "A128GCMKW"

    def test_is_for_its_owner_alone_and_so_is_all_beside_it(self, file: KeystoreFile, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        finally:
            os.umask(before)
        modes = {place.name: stat.S_IMODE(place.stat().st_mode) for place in tmp_path.iterdir()}
        assert modes == {"keystore.age": 0o600, "keystore.age.previous": 0o600, "keystore.age.lock": 0o600}

    def test_new_folder_is_for_its_owner_alone(self, tmp_path: Path) -> None:
        KeystoreFile(tmp_path / "new" / "keystore.age").create(Keystore(), PASSPHRASE, work_factor=LOW)
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o777])
    def test_is_refused_when_others_may_use_it_with_the_remedy(self, file: KeystoreFile, mode: int) -> None:
        file.path.chmod(mode)
        with pytest.raises(AccessDeniedError, match=f"chmod 600 {file.path}"):
            file.read(PASSPHRASE)
        with pytest.raises(AccessDeniedError):
            file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])

    def test_is_never_overwritten_by_create(self, file: KeystoreFile, tmp_path: Path) -> None:
        before = file.path.read_bytes()
        with pytest.raises(ConfigError, match="exists already"):
            file.create(Keystore(), PASSPHRASE, work_factor=LOW)
        assert file.path.read_bytes() == before
        assert [place.name for place in tmp_path.iterdir()] == ["keystore.age"]

    def test_change_keeps_the_previous_file(self, file: KeystoreFile) -> None:
        before = file.path.read_bytes()
        file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        assert file.previous.read_bytes() == before
        file.add(PASSPHRASE, [MasterKey.generate("later", CREATED)])
        assert [key.id for key in KeystoreFile(file.previous).read(PASSPHRASE).keys] == ["hr", "other", "late"]

    def test_ten_former_generations_are_kept(self, file: KeystoreFile) -> None:
        for number in range(12):
            file.add(PASSPHRASE, [MasterKey.generate(f"k{number}", CREATED)])
        kept = [len(KeystoreFile(each).read(PASSPHRASE).keys) for each in file.generations]
        assert kept == [13, 12, 11, 10, 9, 8, 7, 6, 5, 4]
        assert {stat.S_IMODE(each.stat().st_mode) for each in file.generations} == {0o600}

    def test_a_lost_keystore_is_restored_from_its_last_generation(self, file: KeystoreFile) -> None:
        file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        file.path.unlink()
        with pytest.raises(ConfigError, match=f"restore it from its former generation: mv {file.previous} {file.path}"):
            KeystoreKms(file.path, PassphraseSource()).wrap(KEY, "hr")

    def test_no_keystore_is_made_beside_a_former_one(self, file: KeystoreFile) -> None:
        file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        file.path.unlink()
        with pytest.raises(ConfigError, match="holds the keys of a former keystore"):
            file.create(Keystore(()), PASSPHRASE, work_factor=10)
        assert not file.path.exists()
        file.previous.unlink()
        file.create(Keystore(()), PASSPHRASE, work_factor=10)

    def test_duplicate_id_is_refused_and_nothing_is_written(self, file: KeystoreFile) -> None:
        before = file.path.read_bytes()
        with pytest.raises(ConfigError, match="hr is already"):
            file.add(PASSPHRASE, [MasterKey.generate("late", CREATED), MasterKey.generate("hr", CREATED)])
        assert file.path.read_bytes() == before
        assert not file.previous.exists()

    def test_new_passphrase_opens_it_and_the_old_one_does_not(self, file: KeystoreFile) -> None:
        file.change_passphrase(PASSPHRASE, "new")
        assert file.read("new").keys == (HR, OTHER)
        with pytest.raises(WrongKeyError):
            file.read(PASSPHRASE)

    def test_empty_passphrase_is_refused(self, file: KeystoreFile, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="empty passphrase"):
            file.change_passphrase(PASSPHRASE, "")
        with pytest.raises(ConfigError, match="empty passphrase"):
            KeystoreFile(tmp_path / "b.age").create(Keystore(), "", work_factor=LOW)
        assert file.read(PASSPHRASE)

    def test_change_keeps_the_work_factor(self, file: KeystoreFile) -> None:
        file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        assert age.work_factor(file.path.read_bytes()) == LOW

    def test_link_stays_a_link(self, file: KeystoreFile, tmp_path: Path) -> None:
        link = tmp_path / "link.age"
        link.symlink_to(file.path)
        KeystoreFile(link).add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        assert link.is_symlink()
        assert file.read(PASSPHRASE).get("late")

    @pytest.mark.parametrize("step", ["fsync", "link", "rename"])
    def test_failure_while_writing_leaves_the_old_file_and_no_litter(
        self, file: KeystoreFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
    ) -> None:
        before = file.path.read_bytes()

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        place, name = (Path, "replace") if step == "rename" else (os, step)
        monkeypatch.setattr(place, name, fail)
        with pytest.raises(ConfigError, match="No space left"):
            file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
        assert file.path.read_bytes() == before
        assert {place.name for place in tmp_path.iterdir()} == {"keystore.age", "keystore.age.lock"}

    def test_concurrent_adds_lose_no_key(self, file: KeystoreFile) -> None:
        adders = [
            subprocess.Popen([sys.executable, "-c", ADD_FOUR, str(file.path), PASSPHRASE, str(number)])
            for number in range(3)
        ]
        assert [adder.wait(timeout=60) for adder in adders] == [0, 0, 0]
        added = {f"k{number}-{i}" for number in range(3) for i in range(4)}
        assert {key.id for key in file.read(PASSPHRASE).keys} == {"hr", "other", *added}


ADD_FOUR = """
import sys, datetime, pathlib
from sealberg.keys.keystore.kms import KeystoreFile
from sealberg.keys.keystore.jwk import MasterKey
path, passphrase, number = sys.argv[1:]
for i in range(4):
    key = MasterKey.generate(f"k{number}-{i}", datetime.datetime.now(datetime.UTC))
    KeystoreFile(pathlib.Path(path)).add(passphrase, [key])
"""


# What is refused


def write(file: KeystoreFile, content: bytes) -> None:
    file.path.write_bytes(content)


class TestRefusals:
    def test_wrong_passphrase_in_constant_words(self, file: KeystoreFile) -> None:
        with pytest.raises(WrongKeyError, match="wrong passphrase") as caught:
            file.read("hunter2")
        assert "hunter2" not in str(caught.value)
        assert str(file.path) in str(caught.value)

    def test_every_cut(self, file: KeystoreFile) -> None:
        whole = file.path.read_bytes()
        for length in range(len(whole)):
            write(file, whole[:length])
            with pytest.raises((FormatError, AuthenticationError), match=r"keystore\.age"):
                file.read(PASSPHRASE)

    def test_every_flipped_byte(self, file: KeystoreFile) -> None:
        whole = file.path.read_bytes()
        for place in range(len(whole)):
            write(file, whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises((FormatError, AuthenticationError, WrongKeyError, UnsupportedError)):
                file.read(PASSPHRASE)

    def test_trailing_bytes(self, file: KeystoreFile) -> None:
        write(file, file.path.read_bytes() + b"\n")
        with pytest.raises(AuthenticationError):
            file.read(PASSPHRASE)

    def test_missing_file(self, tmp_path: Path) -> None:
        nowhere = KeystoreFile(tmp_path / "nowhere.age")
        with pytest.raises(ConfigError, match="no such file"):
            nowhere.read(PASSPHRASE)
        with pytest.raises(ConfigError, match="no such file"):
            nowhere.add(PASSPHRASE, [HR])

    def test_folder_and_pipe(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe", 0o600)
        for place in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(ConfigError, match="not a file"):
                KeystoreFile(place).read(PASSPHRASE)

    def test_file_that_may_not_be_read(self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
        def deny(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(os, "open", deny)  # root may read everything, so the mode would not do
        with pytest.raises(AccessDeniedError, match="Permission denied"):
            file.read(PASSPHRASE)

    def test_file_beyond_all_measure(self, file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(private_file, "MAX_LENGTH", 100)
        with pytest.raises(FormatError, match="more than 100 bytes"):
            file.read(PASSPHRASE)

    def test_content_that_is_no_jwk_set_is_told_with_its_file(self, file: KeystoreFile) -> None:
        write(file, age.seal(b"[]", PASSPHRASE, work_factor=LOW))
        with pytest.raises(FormatError, match=rf"{file.path}: not a JWK set"):
            file.read(PASSPHRASE)


def test_a_destroyed_key_is_in_no_file_any_more(file: KeystoreFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", PASSPHRASE)
    client = KeystoreKms(file.path, PassphraseSource())
    wrapped = client.wrap(KEY, "hr")
    assert client.deletion_days("hr") == range(1)
    for _ in range(2):  # the second time by a job that was killed after the first
        assert client.schedule_deletion("hr", 0)["state"] == "deleted"
    with pytest.raises(KeyNotFoundError):
        client.unwrap(wrapped, "hr")
    assert [key.id for key in file.read(PASSPHRASE).keys] == [OTHER.id]


def test_a_destroyed_key_is_in_no_former_generation(file: KeystoreFile) -> None:
    file.add(PASSPHRASE, [MasterKey.generate("late", CREATED)])
    file.add(PASSPHRASE, [MasterKey.generate("later", CREATED)])
    file.destroy(PASSPHRASE, "hr")
    held = [{key.id for key in KeystoreFile(each).read(PASSPHRASE).keys} for each in (file.path, *file.generations)]
    assert held == [{"other", "late", "later"}, {"other", "late"}, {"other"}]


def test_nothing_is_destroyed_while_a_former_generation_does_not_open(file: KeystoreFile) -> None:
    file.change_passphrase(PASSPHRASE, "new")
    with pytest.raises(ConfigError, match=f"no key was removed: {file.previous} does not open"):
        file.destroy("new", "hr")
    assert file.read("new").get("hr")
    file.previous.unlink()
    assert file.destroy("new", "hr").keys == file.read("new").keys == (OTHER,)


@pytest.mark.parametrize("seconds", ["0", "0.01"])
def test_a_destroyed_key_opens_no_table_after_the_time_of_the_cache(
    file: KeystoreFile, tmp_path: Path, seconds: str
) -> None:
    rows = pa.table({"id": [1]})
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
        "encryption.kms-type": "keystore",
        "encryption.kek-cache-ttl-s": seconds,
    }
    with sealberg.load_catalog("test", **properties) as catalog:
        catalog.create_namespace("db")
        table: Any = catalog.create_table("db.t", rows.schema, properties={"encryption.key-id": "hr"})
        table.append(rows)
        assert table.scan().to_arrow().num_rows == 1
        file.destroy(PASSPHRASE, "hr")
        if seconds != "0":
            table.encryption.cache._clock = lambda: float("inf")
        for act in (
            lambda: table.scan().to_arrow(),
            lambda: table.append(rows),
            lambda: catalog.load_table("db.t").scan().to_arrow(),
            lambda: catalog.create_table("db.new", rows.schema, properties={"encryption.key-id": "hr"}),
        ):
            with pytest.raises(KeyNotFoundError):
                act()
