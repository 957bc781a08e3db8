"""On Spark, the audit log is written by the driver's Python, and by no one else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kit.servers.kms import audit_lines

if TYPE_CHECKING:
    import pytest

    from kit.programs.spark import SparkKit


def test_the_driver_logs_the_use_of_keys(kit: SparkKit, caplog: pytest.LogCaptureFixture) -> None:
    name = kit.fresh()
    with caplog.at_level(logging.INFO, "sealberg.audit"):
        kit.sql(f"CREATE TABLE {name} (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr')")
        kit.sql(f"INSERT INTO {name} VALUES (1), (2)")
        written = audit_lines(caplog)
        caplog.clear()
        assert kit.sql(f"SELECT sum(id) FROM {name} WHERE id > 0") == [(3,)]
        read = audit_lines(caplog)
    assert [line["event"] for line in written][:2] == ["wrap", "unwrap"]
    assert {line["event"] for line in written[2:]} <= {"cached"}
    assert [line["event"] for line in read] == ["cached"], "one line for the table, none for its files"
    table = name.partition(".")[2]
    assert {(line["table"], line["master_key_id"], line["kms"]) for line in (*written, *read)} == {
        (table, "hr", "memory")
    }
