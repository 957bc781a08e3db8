"""Random removals: tables beside and inside of each other, planted objects, and every deleting act in random order.

    python -m chaos.removals --acts 10000       what `make chaos` ends with

After each act every row of every table is there, and so is the operator's file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import uuid
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kit.tables.lives import ids, lived, rows
from kit.tables.tables import sealed_catalog
from sealberg.catalogs.new_places import NewPlace
from sealberg.errors import SealbergError
from sealberg.files.locations import normal
from sealberg.jobs import erase, expire, orphans
from sealberg.jobs.removal import journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

LONG_AGO: Final = 1_600_000_000
ACTS: Final = 100  # of one lake


def precious(tmp_path: Path, name: str = "home/keystore.age") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"precious")
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def folder(table: Any) -> Path:
    return Path(normal(table.metadata.location))


def age_all(top: Path) -> None:
    for path in top.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (LONG_AGO, LONG_AGO))


def live(table: Any) -> set[Path]:
    return {path for path in folder(table).rglob("*") if path.is_file()}


def statistics_of(paths: list[str], snapshot_id: int = 4711) -> list[dict[str, Any]]:
    return [
        {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
        for path in paths
    ]


def plant_older(table: Any, spell: Callable[[str], str]) -> Path:
    """An "older" metadata file of the table whose statistics are the live files."""
    document = json.loads(Path(normal(table.metadata_location)).read_text())
    named = [spell(f"file://{path}") for path in live(table) if path.suffix in {".parquet", ".avro", ".puffin"}]
    first = document["snapshots"][0]
    document |= {
        "snapshots": [{**first, "snapshot-id": 4711, "manifest-list": f"{table.metadata.location}/metadata/gone.avro"}],
        "refs": {},
        "current-snapshot-id": None,
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": statistics_of(named),
        "partition-statistics": [],
        "encryption-keys": [
            *document["encryption-keys"],
            {"key-id": "AAAA", "encrypted-key-metadata": "AAAA", "encrypted-by-id": "x"},
        ],
    }
    path = folder(table) / "metadata" / f"00000-{uuid.uuid4()}.metadata.json"
    path.write_text(json.dumps(document))
    return path


def acts(catalog: EncryptedSqlCatalog, name: str) -> dict[str, Callable[[], object]]:
    return {
        "orphans": lambda: orphans.plan(name, catalog=catalog, older_than=timedelta(days=1)).execute(),
        "expire": lambda: expire.plan(name, catalog=catalog, older_than=timedelta(days=5)).execute(),
        "expire all": lambda: expire.plan(catalog=catalog, every=True, older_than=timedelta(days=5)).execute(),
        "erase": lambda: erase.plan(name, catalog=catalog, where="id = 99999").execute(),
        "append": lambda: catalog.load_table(name).append(rows(random.randrange(10**6))),
        "purge": lambda: catalog.purge_table("hr.victim"),
    }


def planted(chance: random.Random, table: Any, kept: Path) -> None:
    """An object of a random name and content in the folder of a table."""
    there = [path for path in live(table) if path.is_file()]
    some = chance.choice(there)
    name = chance.choice([
        f"{some.name}{chance.choice(['#', '?', chr(10), ';', ' ', '%2F'])}x", f"{uuid.uuid4()}{journal.SUFFIX}",
        "notes.txt", ".hidden", "version-hint.text", f"v{chance.randrange(99)}.metadata.json",
    ])  # fmt: skip
    path = some.parent / name
    if os.path.lexists(path):
        return  # a link leads out of the table, and the test itself must not write there
    kind = chance.randrange(5)
    if kind == 0:
        with suppress(FileExistsError):
            path.symlink_to(chance.choice([kept, kept.parent, some]))
    elif kind == 1:
        path.write_bytes(chance.choice([b"AGS1", b"PARE", b"{}", b"", b"PAR1"]))
    elif kind == 2:
        path.write_bytes(some.read_bytes())
    else:
        spellings: list[Callable[[str], str]] = [str, lambda p: p + "#x", lambda p: p.replace("/hr/", "/hr/./")]
        plant_older(table, chance.choice(spellings))
        return
    if not path.is_symlink():
        os.utime(path, (LONG_AGO, LONG_AGO))


@contextmanager
def careless() -> Iterator[None]:
    """A new table goes where a tool puts it that does not look what is there."""
    given = NewPlace.given
    NewPlace.given = lambda _, location: location  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        NewPlace.given = given  # type: ignore[method-assign]


def random_removals(tmp_path: Path, seed: int, number: int) -> None:
    chance = random.Random(seed)
    kept = precious(tmp_path)
    with sealed_catalog(tmp_path) as catalog:
        tables = [lived(catalog, name) for name in ("hr.people", "hr.other")]
        inner = f"{tables[0].metadata.location}/below"
        plain = catalog.create_table(
            "hr.plain", rows().schema, f"file://{tmp_path}/plain", properties={"format-version": "3"}
        )
        plain.append(rows(1, 2))
        with careless():
            nested = catalog.create_table("hr.inner", rows().schema, inner, properties={"encryption.key-id": "hr"})
            nested.append(rows(7))
            tables.append(nested)
        names = [".".join(each.name()) for each in tables]
        for _ in range(number):
            table = catalog.load_table(chance.choice(names))
            if chance.random() < 0.5:
                planted(chance, table, kept)
            age_all(tmp_path)
            expected = {name: ids(catalog.load_table(name)) for name in [*names, "hr.plain"]}
            name = ".".join(table.name())
            act = chance.choice(sorted(acts(catalog, name)))
            if act == "purge":
                victim = catalog.create_table("hr.victim", rows().schema, properties={"encryption.key-id": "hr"})
                victim.append(rows(1))
            with suppress(SealbergError):
                acts(catalog, name)[act]()
            if act == "purge":
                with suppress(Exception):
                    catalog.drop_table("hr.victim")
            assert kept.read_bytes() == b"precious", (seed, act)
            for other, there in expected.items():
                now = ids(catalog.load_table(other))
                assert now == there or (act == "append" and set(now) > set(there)), (seed, act, other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    for number in range(0, given.acts, ACTS):
        with tempfile.TemporaryDirectory() as place:
            random_removals(Path(place), given.seed + number, min(ACTS, given.acts - number))
    print(f"{given.acts} acts from the seed {given.seed}: nothing live and nothing of others was removed")


if __name__ == "__main__":
    main()
