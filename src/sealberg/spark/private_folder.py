"""Folders that no other user can change: for the socket through which Spark gets keys.

    check_private(path)     every folder down to `path` belongs to this user or to root, and others cannot write to it
    private_folder(names)   a new folder of mode 0700, with a path short enough for a socket in it

A path that is a symbolic link is refused: whoever makes the link decides where it leads.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from sealberg.errors import AccessDeniedError, ConfigError

SOCKET_PATH: Final = 100  # bytes; every system allows socket paths of this length


def check_private(path: Path, way_out: str) -> None:
    """Refuse a file or folder that another user could have made, or could replace.

    Args:
        path: the file or folder.
        way_out: the last part of the error message: what to do instead.
    """
    _check_own(path, path.lstat(), way_out)
    for folder in path.resolve().parents:
        facts = folder.stat()
        if facts.st_uid not in (0, os.geteuid()):
            raise AccessDeniedError(f"{folder} belongs to uid {facts.st_uid}, who could replace {path}: {way_out}")
        # In a sticky folder, such as /tmp, users cannot rename the files of others.
        if facts.st_mode & 0o022 and not facts.st_mode & stat.S_ISVTX:
            mode = stat.S_IMODE(facts.st_mode)
            raise AccessDeniedError(f"{folder} has mode {mode:04o}, so others could replace {path}: {way_out}")


def _check_own(path: Path, facts: os.stat_result, way_out: str) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise AccessDeniedError(f"{path} is a symbolic link, which is not followed: {way_out}")
    if facts.st_uid not in (0, os.geteuid()):
        raise AccessDeniedError(f"{path} belongs to uid {facts.st_uid}, expected {os.geteuid()} or 0: {way_out}")
    if facts.st_mode & 0o022:
        mode = stat.S_IMODE(facts.st_mode)
        raise AccessDeniedError(f"{path} has mode {mode:04o}, so others may write to it: {way_out}")


def private_folder(*names: str) -> Path:
    """A new folder of mode 0700, whose path is short enough for sockets with these names."""
    way_out = "set TMPDIR to a folder that only this user can write to"
    refused: list[str] = []
    for parent in dict.fromkeys([os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]):  # noqa: S108
        if not parent or not os.access(parent, os.W_OK | os.X_OK):
            continue
        longest = max(len(os.fsencode(f"{parent}/sealberg-12345678/{name}")) for name in names)
        if longest > SOCKET_PATH:
            refused.append(f"{parent}: the path would have {longest} bytes, a socket path has at most {SOCKET_PATH}")
            continue
        folder = Path(tempfile.mkdtemp(prefix="sealberg-", dir=parent))
        try:
            check_private(folder, way_out)
        except AccessDeniedError as error:
            folder.rmdir()
            refused.append(str(error))
            continue
        return folder
    reasons = "; ".join(refused) or "no temporary folder is writable"
    raise ConfigError(f"could not make a private folder for a socket ({reasons}): {way_out}")
