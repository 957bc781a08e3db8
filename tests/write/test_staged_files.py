"""Files that no commit names yet: deleted when the block fails, left alone when it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.write.staged_files import StagedFiles

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).write_bytes(b"x")
    return [str(folder / name) for name in names]


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_block_that_ends_well_keeps_its_files(tmp_path: Path) -> None:
    with StagedFiles(PyArrowFileIO(), written(tmp_path, "a")) as staged:
        staged.add(*written(tmp_path, "b"))
    assert left(tmp_path) == {"a", "b"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_deletes_its_files(tmp_path: Path, error: type[BaseException]) -> None:
    written(tmp_path, "others")
    with pytest.raises(error), StagedFiles(PyArrowFileIO(), written(tmp_path, "a")) as staged:
        staged.add(*written(tmp_path, "b"))
        raise error
    assert left(tmp_path) == {"others"}


def test_a_file_that_cannot_be_deleted_hides_neither_the_error_nor_the_other_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the reason"), StagedFiles(PyArrowFileIO()) as staged:
        staged.add(str(tmp_path / "never-written"), *written(tmp_path, "a"))
        raise ValueError("the reason")
    assert left(tmp_path) == set()


def test_files_that_a_merge_replaced_go_at_once(tmp_path: Path) -> None:
    with StagedFiles(PyArrowFileIO(), written(tmp_path, "a", "b")) as staged:
        staged.keep_only([str(tmp_path / "b"), "elsewhere"])
        assert left(tmp_path) == {"b"}
        assert staged.locations == (str(tmp_path / "b"),)
