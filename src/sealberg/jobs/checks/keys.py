"""The keys of a table: each snapshot's key exists and opens, no key is superfluous, no KEK is too old.

    snapshot ──key-id──> list key ──encrypted-by-id──> KEK ──encrypted-by-id──> master key in the KMS

Each KEK is asked of the KMS once. If the KMS fails for a KEK, the snapshots below it are not checked, and the
snapshots below other KEKs are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sealberg.errors import (
    AuthenticationError,
    KeyAccessError,
    KeyNotFoundError,
    SealbergError,
    WrongKeyError,
    WrongPassphraseError,
)
from sealberg.jobs import key_tree
from sealberg.jobs.checks.outcome import reason_of
from sealberg.jobs.codes import code_of
from sealberg.keys.keyring import DAY_MS, MAX_SKEW_MS
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.metadata.statistics import needed_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sealberg.format.key_metadata import KeyMetadata
    from sealberg.jobs.checks.outcome import Outcome
    from sealberg.jobs.checks.table_state import TableState
    from sealberg.jobs.findings import KekFacts
    from sealberg.keys.keyring import Keyring
    from sealberg.metadata.table_metadata import V3Snapshot


@dataclass
class ListKeys:
    """The keys of the manifest lists that could be opened, by snapshot; and what is known of each KEK."""

    by_snapshot: dict[int, KeyMetadata] = field(default_factory=dict, repr=False)
    opened: dict[str, bool] = field(default_factory=dict)


def check_keys(state: TableState, snapshots: Sequence[V3Snapshot], outcome: Outcome, now_ms: int) -> ListKeys:
    """Open the key of every given snapshot, and check every entry of encryption-keys."""
    ring, master = state.metadata.encryption_keys, state.metadata.properties.get(KEY_ID_PROPERTY)
    found = ListKeys()
    refused = _check_keks(ring, master, outcome, now_ms)
    failed: dict[str, str] = {}
    for snapshot in snapshots:
        _open(state, snapshot, ring, refused, failed, found, outcome)
    _check_unused(state, ring, outcome, now_ms)
    return found


def kek_facts(state: TableState, keys: ListKeys, outcome: Outcome, now_ms: int) -> tuple[KekFacts, ...]:
    """All KEKs with their age, and a finding if the active KEK is near its end or past it."""
    facts = key_tree.kek_facts(
        key_tree.table_tree(state.metadata),
        now_ms=now_ms,
        master_key_id=state.metadata.properties.get(KEY_ID_PROPERTY),
        lifespan_ms=state.kek_lifespan_ms,
        opened=keys.opened,
    )
    for kek in facts:
        if kek.state in ("near-end", "past-end") and kek.expires_ms is not None:
            left = (kek.expires_ms - now_ms) // DAY_MS
            text = f"ends in {left} days" if left >= 0 else f"ended {-left} days ago"
            outcome.find("kek-age", f"the life of KEK {kek.key_id} {text}; the next commit must make a new KEK")
    return facts


def _check_keks(ring: Keyring, master: str | None, outcome: Outcome, now_ms: int) -> set[str]:
    """Findings about KEK entries; returns the ids of KEKs that must not be used."""
    refused = set()
    for entry in ring:
        if entry.timestamp is None:
            if entry.encrypted_by_id == master:
                outcome.find("key-time", f"KEK {entry.key_id} has no KEY_TIMESTAMP")
                refused.add(entry.key_id)
            continue
        if entry.encrypted_by_id != master:
            outcome.find(
                "key-master",
                f"KEK {entry.key_id} is wrapped by the master key {entry.encrypted_by_id}, expected {master}",
            )
            refused.add(entry.key_id)
        made = entry.timestamp_ms if re.fullmatch("[0-9]+", entry.timestamp) else None
        if made is None or made > now_ms + MAX_SKEW_MS:
            what = "is not a number" if made is None else "is in the future"
            outcome.find("key-time", f"the KEY_TIMESTAMP of KEK {entry.key_id} {what}")
            refused.add(entry.key_id)
    return refused


def _open(
    state: TableState,
    snapshot: V3Snapshot,
    ring: Keyring,
    refused: set[str],
    failed: dict[str, str],
    found: ListKeys,
    outcome: Outcome,
) -> None:
    number, key_id = snapshot.snapshot_id, snapshot.key_id
    if key_id is None:
        outcome.find("plaintext", "the snapshot has no key-id, so its manifest list is not encrypted", None, number)
        return
    try:
        _, kek = ring.list_key(key_id)
    except SealbergError as error:
        kind = "key-missing" if isinstance(error, KeyNotFoundError) else "metadata"
        outcome.find(kind, f"snapshot {number} cannot be read: {error}", None, number)
        return
    if kek.key_id in refused:
        return  # found already
    if kek.key_id in failed:
        outcome.skip(f"snapshot {number}", failed[kek.key_id])
        return
    try:
        found.by_snapshot[number] = state.io.open_list_key(key_id)
        found.opened[kek.key_id] = True
    except (SealbergError, OSError) as error:
        if isinstance(error, AuthenticationError):
            found.opened.setdefault(kek.key_id, True)  # the KEK is here, and the entry below it is wrong
            outcome.find("key-altered", f"snapshot {number} cannot be read: {error}", None, number)
            return
        found.opened.setdefault(kek.key_id, False)
        if isinstance(error, WrongPassphraseError):
            failed[kek.key_id] = f"the keystore does not open: {error}"
            outcome.skip(f"snapshot {number}", failed[kek.key_id])
            return
        if isinstance(error, WrongKeyError | KeyNotFoundError):
            kind = "key-altered" if isinstance(error, WrongKeyError) else "key-missing"
            outcome.find(kind, f"snapshot {number} cannot be read: {error}", None, number)
        elif code_of(error) is not None and not isinstance(error, KeyAccessError):
            outcome.find("key-altered", f"snapshot {number} cannot be read: {error}", None, number)
        else:
            failed[kek.key_id] = reason_of(error)
            outcome.skip(f"snapshot {number}", failed[kek.key_id])


def _check_unused(state: TableState, ring: Keyring, outcome: Outcome, now_ms: int) -> None:
    needed = needed_keys(state.metadata)
    sealing = {entry.encrypted_by_id for entry in ring}
    master = state.metadata.properties.get(KEY_ID_PROPERTY, "")
    newest = max(
        (
            entry
            for entry in ring.keks(master)
            if entry.java_finds_timestamp and (entry.timestamp_ms or 0) <= now_ms + MAX_SKEW_MS
        ),
        key=lambda entry: entry.timestamp_ms or 0,
        default=None,
    )
    for entry in ring:
        if entry.key_id in needed or entry.key_id in sealing or (newest is not None and entry.key_id == newest.key_id):
            continue
        what = "KEK" if entry.timestamp is not None else "the key of a manifest list or of a statistics file"
        outcome.find("key-unused", f"nothing needs the key {entry.key_id} ({what})")
