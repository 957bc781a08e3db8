"""The audit log: what it costs when nobody listens, and what a catalog's tables leave in it.

That every KMS client leaves its lines, failures too, is in the table of kit/servers/kms.py.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.servers.kms import audit_lines
from sealberg.errors import KmsUnavailableError, WrongKeyError
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys import audit
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.memory import MemoryKms
from sealberg.keys.manager import EncryptionManager, EncryptionSettings

if TYPE_CHECKING:
    from pathlib import Path

LIST_KEY = KeyMetadata(bytes(range(16)), bytes(16), 36)


def test_nothing_is_computed_while_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("a line was made for nobody")

    monkeypatch.setattr(audit, "datetime", None)
    monkeypatch.setattr(audit, "_user", fail)
    monkeypatch.setattr(json, "dumps", fail)
    manager = EncryptionManager(EncryptionSettings("db.t", "hr"), kms=MemoryKms({"hr": bytes(16)}))
    ring, key_id = manager.seal_list_key(Keyring(), LIST_KEY)
    assert manager.open_list_key(ring, key_id) == LIST_KEY


USE = """
import logging, sys
from sealberg.format.key_metadata import KeyMetadata
from sealberg.keys.keyring import Keyring
from sealberg.keys.manager import EncryptionManager, EncryptionSettings
from sealberg.keys.kms.memory import MemoryKms
{setup}
manager = EncryptionManager(EncryptionSettings("db.t", "hr"), kms=MemoryKms({{"hr": bytes(16)}}))
manager.seal_list_key(Keyring(), KeyMetadata(bytes(16), bytes(16), 36))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ("", 0),
        ("logging.getLogger('sealberg.audit').setLevel(logging.INFO)", 0),
        ("logging.basicConfig()", 0),
        ("logging.basicConfig(format='%(message)s', level=logging.INFO)", 2),
        (
            "audit = logging.getLogger('sealberg.audit')\naudit.setLevel(logging.INFO)\n"
            "audit.addHandler(logging.StreamHandler())",
            2,
        ),
    ],
)
def test_lines_appear_only_where_logging_is_set_up_for_them(setup: str, lines: int) -> None:
    code = USE.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in found] == ["wrap", "unwrap"][:lines]


def test_a_call_that_is_retried_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    class Flaky(MemoryKms):
        provider = "flaky"
        fails = 2

        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            if Flaky.fails:
                Flaky.fails -= 1
                raise ConnectionResetError
            return super().unwrap(wrapped, master_key_id)

    properties = {"encryption.kms.backoff-s": "0.001", "encryption.kms.max-attempts": "3"}
    settings = EncryptionSettings("db.t", "hr", kms_properties=properties)
    with caplog.at_level(logging.INFO, "sealberg.audit"):
        ring, _ = EncryptionManager(settings, kms=Flaky({"hr": bytes(16)})).seal_list_key(Keyring(), LIST_KEY)
        Flaky.fails = 3
        with pytest.raises(KmsUnavailableError):
            EncryptionManager(settings, kms=Flaky({"hr": bytes(16)})).seal_list_key(ring, LIST_KEY)
    assert [(line["event"], line["kms"], line.get("error")) for line in audit_lines(caplog)] == [
        ("wrap", "flaky", None),
        ("unwrap", "flaky", None),
        ("unwrap", "flaky", "KmsUnavailableError"),
    ]


def test_a_kms_that_gives_another_key_back_is_a_failed_unwrap(caplog: pytest.LogCaptureFixture) -> None:
    class Lossy(MemoryKms):
        def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
            return bytes(16)

    manager = EncryptionManager(EncryptionSettings("db.t", "hr"), kms=Lossy({"hr": bytes(16)}))
    with caplog.at_level(logging.INFO, "sealberg.audit"), pytest.raises(WrongKeyError):
        manager.new_kek()
    assert [(line["event"], line["result"]) for line in audit_lines(caplog)] == [("wrap", "ok"), ("unwrap", "error")]


def test_the_tables_of_a_catalog_tell_who_was_opened_and_by_whom(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def connect() -> Any:
        return sealberg.load_catalog(
            "t",
            type="sql",
            uri=f"sqlite:///{tmp_path}/c.db",
            warehouse=f"file://{tmp_path}/warehouse",
            **{"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16},
        )

    schema = pa.schema([("id", pa.int64())])
    rows = pa.table({"id": [1]}, schema=schema)
    with connect() as catalog, caplog.at_level(logging.INFO, "sealberg.audit"):
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", schema, properties={"encryption.key-id": "hr"})
        table.append(rows)
        assert [line["event"] for line in audit_lines(caplog)] == ["wrap", "unwrap", "cached"]
        caplog.clear()
        for _ in range(2):
            again = catalog.load_table("db.t")
            for _ in range(3):
                assert again.scan().to_arrow().num_rows == 1
        assert [line["event"] for line in audit_lines(caplog)] == ["cached", "cached"], "one for each table opened"
        caplog.clear()
        with connect() as other:
            other.load_table("db.t").scan().to_arrow()
        [line] = audit_lines(caplog)
    [kek] = [key for key in table.metadata.encryption_keys if key.timestamp is not None]
    assert line == {
        "event": "unwrap",
        "table": "db.t",
        "kek_id": kek.key_id,
        "master_key_id": "hr",
        "kms": "memory",
        "result": "ok",
    }
