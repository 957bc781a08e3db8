"""The KEKs of a table with age and state, from its metadata alone; needs no key and no KMS.

    encryption-keys + snapshots ──keys.key_tree──> KeyTree ──kek_facts──> KekFacts for each KEK

    state           age of the KEK                          seals new keys    opens older keys
    active          below its lifespan, the newest          yes               yes
    near-end        active, in its last 30 days             yes, not long     yes
    retired         any; a newer KEK exists, or the         no                yes
                    timestamp has another name than Java's
    past-end        at its lifespan or above; none newer    no                yes
    future          begins more than a day from now         no                no: refused
    no-timestamp    unknown                                 no                no: refused

The rules are those of `Keyring.active_kek`. A KEK that no snapshot needs has no `snapshots`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.jobs.findings import KekFacts
from sealberg.keys.key_tree import key_tree
from sealberg.keys.keyring import DAY_MS, KEK_LIFESPAN_MS, MAX_SKEW_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sealberg.jobs.findings import KekState
    from sealberg.keys.key_tree import Kek, KeyTree
    from sealberg.metadata.table_metadata import V3TableMetadata

NEAR_END_MS: Final = 30 * DAY_MS
STATES: Final[dict[KekState, str]] = {
    "active": "active",
    "near-end": "near its end",
    "retired": "may still unwrap",
    "past-end": "past its age",
    "future": "made in the future",
    "no-timestamp": "without a timestamp",
}


def table_tree(metadata: V3TableMetadata) -> KeyTree:
    """The key tree of a table."""
    from sealberg.metadata.statistics import statistics_files, statistics_json  # imports PyIceberg

    snapshots = [{"snapshot-id": each.snapshot_id, "key-id": each.key_id} for each in metadata.snapshots]
    statistics = [statistics_json(file) for file in statistics_files(metadata)]
    return key_tree(metadata.encryption_keys, snapshots, statistics)


def kek_facts(
    tree: KeyTree,
    *,
    now_ms: int,
    master_key_id: str | None,
    lifespan_ms: int = KEK_LIFESPAN_MS,
    opened: Mapping[str, bool] | None = None,
) -> tuple[KekFacts, ...]:
    """Every KEK of the tree.

    Args:
        tree: of `sealberg.keys.key_tree`.
        now_ms: the time for which states are computed.
        master_key_id: the table's `encryption.key-id`; a KEK of another master key never seals new keys.
        lifespan_ms: how long a KEK seals new keys, as `encryption.kek-lifespan-days` of the catalog says.
        opened: for each KEK that the KMS was asked for, whether the KMS unwrapped it.
    """
    keks = [(master.key_id, kek) for master in tree.master_keys for kek in master.keks if is_kek(kek)]
    own = [kek for master, kek in keks if master == master_key_id and kek.made_ms is not None]
    sealing = (kek for kek in own if kek.java_finds_timestamp and not _in_future(kek, now_ms))
    newest = max(sealing, key=lambda kek: kek.made_ms or 0, default=None)
    near_end_ms = min(NEAR_END_MS, lifespan_ms // 10)

    def state(kek: Kek) -> KekState:
        if kek.made_ms is None:
            return "no-timestamp"
        if _in_future(kek, now_ms):
            return "future"
        if kek is not newest:
            return "retired"
        left = kek.made_ms + lifespan_ms - now_ms
        if left <= 0:
            return "past-end"
        return "near-end" if left < near_end_ms else "active"

    return tuple(
        KekFacts(
            kek.key_id,
            master,
            kek.made_ms,
            None if kek.made_ms is None else kek.made_ms + lifespan_ms,
            state(kek),
            tuple(sorted({snapshot for key in kek.list_keys for snapshot in (*key.snapshots, *key.statistics)})),
            len(kek.list_keys),
            (opened or {}).get(kek.key_id),
        )
        for master, kek in keks
    )


def is_kek(kek: Kek) -> bool:
    """Whether an entry right below a master key is a KEK, and not the key of a manifest list whose KEK is missing."""
    return kek.made_ms is not None or bool(kek.list_keys)


def age_text(kek: KekFacts, now_ms: int) -> str:
    """'12 days old'."""
    if kek.made_ms is None:
        return "of unknown age"
    return age_words((now_ms - kek.made_ms) // DAY_MS)


def age_words(days: int) -> str:
    """An age in whole days."""
    if days < 0:
        return f"{-days} day{'' if days == -1 else 's'} in the future"
    return "made today" if days == 0 else f"{days} day{'' if days == 1 else 's'} old"


def state_text(kek: KekFacts, now_ms: int) -> str:
    """The state of a KEK in words, with notes."""
    return ", ".join((STATES[kek.state], *state_notes(kek, now_ms)))


def state_notes(kek: KekFacts, now_ms: int) -> Iterator[str]:
    """What else there is to say of the state."""
    if kek.state == "retired" and kek.expires_ms is not None and kek.expires_ms <= now_ms:
        yield STATES["past-end"]
    if not kek.snapshots and kek.state not in ("active", "near-end"):
        yield "needed by nothing"


def _in_future(kek: Kek, now_ms: int) -> bool:
    return kek.made_ms is not None and kek.made_ms > now_ms + MAX_SKEW_MS
