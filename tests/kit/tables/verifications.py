"""Results of `verify` made by hand, for the tests of the report page: sound, with findings, incomplete, hostile."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sealberg.jobs.findings import (
    Finding,
    KekFacts,
    KindFacts,
    NotChecked,
    SnapshotFacts,
    TableFacts,
    Verification,
)

NOW = datetime(2026, 11, 17, 9, 30, 12, tzinfo=UTC)
DAY_MS = 86_400_000
HASH = "yq3fUF5zS0cX1m3tAqYJ8p0o8Jk9gVwq4hE2bT7cLxM="
SCRIPT = "<script>document.title='owned'</script>\"'><img src=x onerror=alert(1)>"
TURNED = "pay\u202e\u2066roll\u200b\ufeff\x1b[2J\U000e0041"
LONG = "x" * 3000
MARKED = "Z" + "\u0301" * 400


def ms(days_ago: float) -> int:
    return int(NOW.timestamp() * 1000) - int(days_ago * DAY_MS)


def snapshot(number: int, days_ago: float, *refs: str, checked: bool = True) -> SnapshotFacts:
    return SnapshotFacts(7_218_354_001_663_100_000 + number, ms(days_ago), "append", f"list-{number}", refs, checked)


def kek(name: str, days_ago: float, state: str, *snapshots: SnapshotFacts, days: int = 730) -> KekFacts:
    made = ms(days_ago)
    ids = tuple(each.snapshot_id for each in snapshots)
    return KekFacts(name, "hr", made, made + days * DAY_MS, state, ids, len(ids), True)  # type: ignore[arg-type]


def salaries(**changes: object) -> TableFacts:
    """A table with two KEKs and eight snapshots."""
    old = [snapshot(at, 900 - 20 * at, *(["audit-2024"] if at == 2 else [])) for at in range(3)]
    new = [snapshot(at, 60 - 9 * at) for at in range(3, 6)]
    new += [snapshot(6, 2, "staging"), snapshot(7, 1, "main")]
    table = TableFacts(
        name="hr.salaries",
        location="s3://lake/hr/salaries",
        table_uuid="0c2f9f2e-52b1-4c0c-9e55-0a7f3c1de6aa",
        encrypted=True,
        key_id="hr",
        key_length=32,
        metadata_location="s3://lake/hr/salaries/metadata/00042-6a1b4c6e-9d1f-4c9a-8a55-2f1f0e6f7a10.metadata.json",
        metadata_hash=HASH,
        catalog_hash=HASH,
        vouched_by="hash",
        current_snapshot_id=new[-1].snapshot_id,
        snapshots=(*old, *new),
        keks=(
            kek("kVb0cFq3Tn2yq8ZJ6Wm4Rg==", 912, "retired", *old),
            kek("tI7oMZr0R1eSx0nCk9yGQA==", 182, "active", *new),
        ),
        kinds=(
            KindFacts("metadata", 43, 1_310_720, 43, 1_310_720, 0),
            KindFacts("manifest-list", 8, 36_864, 8, 36_864, 8),
            KindFacts("manifest", 21, 1_572_864, 21, 1_572_864, 24),
            KindFacts("data", 1_240, 41_875_931_136, 1_240, 41_875_931_136, 412_806),
            KindFacts("deletion-vectors", 17, 2_411_724, 17, 2_411_724, 17),
        ),
    )
    return replace(table, **changes)  # type: ignore[arg-type]


def sound() -> Verification:
    return Verification("0.4.0", "prod", "full", NOW - timedelta(seconds=187), NOW, tables=(salaries(),))


def small() -> Verification:
    """A table with one KEK of 30 days, and one snapshot."""
    first = snapshot(0, 3, "main")
    table = salaries(snapshots=(first,), keks=(kek("tI7oMZr0R1eSx0nCk9yGQA==", 3, "active", first, days=30),))
    return replace(sound(), tables=(table,))


def with_findings() -> Verification:
    table = salaries()
    data = f"{table.location}/data/00000-0-5f0f6f4c-0b3d-4c57-9d7c-7a4b4f1f6c58-00017.parquet"
    newest, metadata = table.snapshots[-1].snapshot_id, f"{table.location}/metadata"
    old = f"{metadata}/00007-8e2b6d0e-6b1c-4d9b-9a53-0d1e4f8a7c21.metadata.json"
    found = (
        Finding(
            "altered", "error", table.name, "page 3 of column 2 in row group 0 failed authentication", data, newest
        ),
        Finding("missing", "error", table.name, "the file does not exist", f"{metadata}/6d1e-m7.avro", newest),
        Finding("old-keys", "warning", table.name, "the file still holds 3 keys of expired snapshots; delete it", old),
        Finding(
            "orphan", "warning", table.name, "no metadata names this encrypted file", f"{table.location}/data/t.avro"
        ),
    )
    return replace(sound(), findings=found)


def incomplete() -> Verification:
    plain = TableFacts(
        "hr.offices", "s3://lake/hr/offices", "c3", False, None, None, "s3://lake/hr/o.json", HASH, None, "nobody", None
    )
    missing = NotChecked("hr.salaries", "8 of 1,240 data files", "the KMS did not answer within 30 s")
    return replace(sound(), tables=(salaries(), plain), not_checked=(missing,))


def hostile() -> Verification:
    """Every text that storage or a catalog can choose tries to become markup, to turn the page, or to break it."""
    texts = (SCRIPT, TURNED, LONG, MARKED)
    odd = [SnapshotFacts(at, 10**18, SCRIPT, SCRIPT, (SCRIPT, TURNED, LONG), checked=True) for at in range(3)]
    keks = tuple(
        KekFacts(text, text, made, made and made + DAY_MS, "retired", (0,), 1, None)
        for text, made in zip(texts, (None, -5, 10**18, ms(3)), strict=True)
    )
    tables = tuple(
        salaries(name=text, location=text, key_id=text, metadata_location=text, snapshots=tuple(odd), keks=keks)
        for text in texts
    )
    findings = tuple(Finding(SCRIPT, "error", text, text, text, 1) for text in texts)
    missing = tuple(NotChecked(text, text, text) for text in texts)
    return replace(sound(), catalog=SCRIPT, tables=tables, findings=findings, not_checked=missing)
