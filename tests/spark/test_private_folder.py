"""A file or folder that somebody else could have made, or could replace, is refused."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sealberg.errors import AccessDeniedError
from sealberg.spark.private_folder import check_private

if TYPE_CHECKING:
    from pathlib import Path


def test_what_others_can_write_to_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.touch(mode=0o600)
    check_private(file, "way out")
    file.chmod(0o666)
    with pytest.raises(AccessDeniedError, match=r"file has mode 0666, so others may write to it: way out"):
        check_private(file, "way out")
    file.chmod(0o600)
    file.parent.chmod(0o777)
    with pytest.raises(AccessDeniedError, match=r"folder has mode 0777, so others could replace .*/file: way out"):
        check_private(file, "way out")
    file.parent.chmod(0o700)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(AccessDeniedError, match="is a symbolic link, which is not followed"):
        check_private(tmp_path / "link", "way out")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user: run this test as root")
def test_what_belongs_to_somebody_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.touch(mode=0o600)
    os.chown(file, 65534, 65534)
    with pytest.raises(AccessDeniedError, match="belongs to uid 65534, expected 0 or 0"):
        check_private(file, "way out")
    os.chown(file, 0, 0)
    os.chown(file.parent, 65534, 65534)
    with pytest.raises(AccessDeniedError, match=r"belongs to uid 65534, who could replace .*/file"):
        check_private(file, "way out")
