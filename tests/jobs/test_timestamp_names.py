"""A KEK whose timestamp is called `key-timestamp`, as in the proposal on the mailing list: understood, not written."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from jobs.forge import Lake
from jobs.forge import rows as lake_rows
from sealberg.errors import FormatError
from sealberg.jobs import keys, prune_keys, rewrap, rotate, verify
from sealberg.jobs.checks.history import _rewrapped
from sealberg.jobs.checks.outcome import Outcome
from sealberg.jobs.checks.storage import _check_old_keys
from sealberg.jobs.removal.key_search import search
from sealberg.jobs.removal.older_metadata import _expired_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROPOSED = "key-timestamp"


def with_kek(change: Callable[[dict[str, str]], object]) -> Callable[[dict[str, Any]], None]:
    def put(document: dict[str, Any]) -> None:
        (kek,) = (entry for entry in document["encryption-keys"] if "properties" in entry)
        change(kek["properties"])

    return put


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table all of whose metadata files have the other name."""
    lake = Lake(tmp_path)
    with lake.forge() as forge:
        for path in forge.metadata.parent.glob("*.metadata.json"):
            path.write_text(path.read_text().replace('"KEY_TIMESTAMP"', f'"{PROPOSED}"'))
        forge.vouch()
    return lake


def test_it_opens_its_keys_and_the_next_commit_makes_a_kek_that_java_can_use(lake: Lake) -> None:
    with lake.catalog() as catalog:
        table: Any = catalog.load_table(lake.name)
        assert table.scan().to_arrow().num_rows == 59
        (old,) = table.metadata.encryption_keys.keks("hr")
        assert PROPOSED in old.properties
        assert old.timestamp_ms is not None
        table.append(lake_rows(60, 61))
        _, new = table.metadata.encryption_keys.keks("hr")
        assert list(new.properties) == ["KEY_TIMESTAMP"]
        newest = table.metadata.encryption_keys.get(table.metadata.current_snapshot().key_id)
        assert newest is not None
        assert newest.encrypted_by_id == new.key_id
        assert table.scan().to_arrow().num_rows == 60
        result = verify.plan(table, orphan_age=timedelta(0)).execute()
        assert (result.verdict, [str(finding) for finding in result.findings]) == ("sound", [])


def test_every_job_takes_it_for_a_kek(lake: Lake) -> None:
    with lake.catalog() as catalog:
        table: Any = catalog.load_table(lake.name)
        assert verify.plan(table, orphan_age=timedelta(0)).execute().findings == ()
        (told,) = keys.plan(table).execute().tables
        assert [use.facts.state for use in told.keks] == ["retired"]
        assert {each.master_keys for each in search(table) if each.own and each.snapshots} == {("hr",)}
        assert rewrap.plan(table).execute().exit_code == 0
        assert rotate.plan(table).execute().exit_code == 0
        table = catalog.load_table(lake.name)
        assert [sorted(kek.properties) for kek in table.metadata.encryption_keys.keks("hr")] == [
            [PROPOSED],
            ["KEY_TIMESTAMP"],
        ]
        assert prune_keys.plan(table).execute().exit_code == 0  # nothing is lost that opens a snapshot
        assert catalog.load_table(lake.name).scan().to_arrow().num_rows == 59


@pytest.mark.parametrize(("given", "refused"), [({}, False), ({PROPOSED: "1750000000000"}, True)])
def test_two_timestamps_are_taken_only_if_they_agree(tmp_path: Path, given: dict[str, str], refused: bool) -> None:
    lake = Lake(tmp_path)
    with lake.forge() as forge:
        forge.document(with_kek(lambda kek: kek.update({PROPOSED: kek["KEY_TIMESTAMP"]} | given)))
    with lake.catalog() as catalog:
        if refused:
            with pytest.raises(FormatError, match="a KEY_TIMESTAMP and a key-timestamp that differ"):
                catalog.load_table(lake.name)
            return
        table: Any = catalog.load_table(lake.name)
        table.append(lake_rows(60, 61))
        assert len(table.metadata.encryption_keys.keks("hr")) == 1
        assert table.scan().to_arrow().num_rows == 60


@pytest.mark.parametrize("name", ["KEY_TIMESTAMP", PROPOSED])
def test_a_kek_of_older_metadata_is_no_key_of_an_expired_snapshot(lake: Lake, name: str) -> None:
    gone = {"key-id": "gone", "encrypted-by-id": "hr", "encrypted-key-metadata": "AAAA", "properties": {name: "1"}}
    older = {"encryption-keys": [gone]}
    outcome = Outcome(lake.name)
    with lake.forge() as forge:
        metadata = forge.table.metadata
        assert _expired_keys(older, metadata, keks=False) == []
        assert _expired_keys(older, metadata, keks=True) == ["gone"]
        _check_old_keys(metadata, older, "m.json", outcome)
        assert outcome.findings == []
        del gone["properties"]
        assert _expired_keys(older, metadata, keks=False) == ["gone"]
        _check_old_keys(metadata, older, "m.json", outcome)
        assert [finding.code for finding in outcome.findings] == ["old-keys"]


@pytest.mark.parametrize("name", ["KEY_TIMESTAMP", PROPOSED])
def test_a_kek_that_was_wrapped_anew_keeps_its_timestamp(name: str) -> None:
    older = {"encryption-keys": [{"key-id": "k", "properties": {name: "1"}}]}
    assert _rewrapped("encryption-keys[k].encrypted-key-metadata", older, older)
    assert not _rewrapped(f"encryption-keys[k].properties.{name}", older, older)
