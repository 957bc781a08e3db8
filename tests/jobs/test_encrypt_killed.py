"""encrypt dies at any operation, runs out of disk, loses its KMS: the next run finishes, and nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from jobs.test_encrypt import leftovers, people, plain, sound
from kit.programs import killed
from kit.tables.tables import rows, sealed_catalog
from sealberg.jobs import decrypt, encrypt

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def prepare(folder: Path) -> None:
    with sealed_catalog(folder) as catalog:
        plain(catalog, "2")


def encrypted(folder: Path, **options: Any) -> int:
    with sealed_catalog(folder) as catalog:
        encrypt.plan("hr.plain", "hr.sealed", key_id="hr", catalog=catalog, **options).execute()
    return 0


def swapped(folder: Path) -> int:
    return encrypted(folder, history=True, swap=True)


def decrypted(folder: Path) -> int:
    with sealed_catalog(folder) as catalog:
        decrypt.plan("hr.t", "hr.open", reason="a test", catalog=catalog).execute()
    return 0


def check(folder: Path, name: str = "hr.sealed") -> None:
    with sealed_catalog(folder) as catalog:
        table = catalog.load_table(name)
        assert sorted(row["id"] for row in rows(table)) == list(range(150))
        assert catalog.list_tables("hr") == [("hr", "plain"), ("hr", "sealed")]
        assert leftovers(catalog, name) == set()
        assert sorted(path.name for path in (folder / "sealed/wh/hr").iterdir()) == ["plain", "sealed"]
        sound(catalog, name, level="full")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", killed.KILLS)
def test_a_run_that_was_killed_anywhere_is_finished_by_the_next(kills: int, tmp_path: Path) -> None:
    prepare(tmp_path / "whole")
    whole = killed.run(encrypted, tmp_path / "whole")
    assert not whole.error, whole.error
    for at in killed.points(whole.operations, kills, seed=kills):
        folder = tmp_path / str(at)
        prepare(folder)
        assert killed.run(encrypted, folder, at=at).killed
        with sealed_catalog(folder) as catalog:
            assert rows(catalog.load_table("hr.plain"))
        again = killed.run(encrypted, folder)
        assert not again.error, f"killed at {at}: {again.error}"
        check(folder)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(8, marks=pytest.mark.deep)])
def test_a_swap_that_was_killed_is_finished_by_the_next_run(kills: int, tmp_path: Path) -> None:
    prepare(tmp_path / "whole")
    whole = killed.run(swapped, tmp_path / "whole")
    assert not whole.error, whole.error
    for at in killed.points(whole.operations, 40, seed=3)[-kills:]:
        folder = tmp_path / str(at)
        prepare(folder)
        killed.run(swapped, folder, at=at)
        again = killed.run(swapped, folder)
        assert not again.error, f"killed at {at}: {again.error}"
        check(folder, "hr.plain")


@pytest.mark.parametrize("fault", ["disk full", "KMS down"])
def test_a_full_disk_and_a_kms_that_fails_publish_nothing_and_the_next_run_finishes(
    tmp_path: Path, fault: killed.Fault
) -> None:
    prepare(tmp_path / "whole")
    whole = killed.run(encrypted, tmp_path / "whole", fault=fault)
    for at in killed.points(whole.operations, 4, seed=5):
        folder = tmp_path / str(at)
        prepare(folder)
        broken = killed.run(encrypted, folder, fault=fault, at=at)
        with sealed_catalog(folder) as catalog:
            if broken.error:
                with pytest.raises(NoSuchTableError):
                    catalog.load_table("hr.sealed")
            assert rows(catalog.load_table("hr.plain"))
        again = killed.run(encrypted, folder)
        assert not again.error, again.error
        check(folder)


def test_a_killed_decrypt_is_finished_by_the_next(tmp_path: Path) -> None:
    def begin(folder: Path) -> None:
        with sealed_catalog(folder) as catalog:
            catalog.create_table("hr.t", people(0, 1).schema, properties={"encryption.key-id": "hr"}).append(
                people(0, 150)
            )

    begin(tmp_path / "whole")
    whole = killed.run(decrypted, tmp_path / "whole")
    for at in killed.points(whole.operations, 6, seed=7):
        folder = tmp_path / str(at)
        begin(folder)
        assert killed.run(decrypted, folder, at=at).killed
        again = killed.run(decrypted, folder)
        assert not again.error, again.error
        with sealed_catalog(folder) as catalog:
            assert catalog.load_table("hr.open").scan().count() == 150
            assert leftovers(catalog, "hr.open") == set()
