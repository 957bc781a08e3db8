"""Folders that nobody else can change: for the socket that leads to the keys.

    check_private(path)     every folder down to `path` belongs to this user or to root, and others cannot write there
    private_folder(names)   a fresh folder of mode 0700, with a path short enough for a socket in it

Links are not followed at the end of a path: whoever makes a link decides where it leads.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from sealberg.errors import AccessDeniedError, ConfigError

SOCKET_PATH: Final = 100  # bytes that every system has room for in the address of a socket


def check_private(path: Path, way_out: str) -> None:
    """Refuse a file or folder that somebody else could have made, or could replace.

    Args:
        path: what will be used.
        way_out: what to do if it is refused, for the message.
    """
    _check_own(path, path.lstat(), way_out)
    for folder in path.resolve().parents:
        facts = folder.stat()
        if facts.st_uid not in (0, os.geteuid()):
            raise AccessDeniedError(f"{folder} belongs to uid {facts.st_uid}, who could replace {path}: {way_out}")
        # In a sticky folder, such as /tmp, nobody can rename what belongs to somebody else.
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
    """A fresh folder of mode 0700, in which paths that end with `names` can be addresses of sockets."""
    way_out = "set TMPDIR to a folder that only this user can write to"
    refused: list[str] = []
    for parent in dict.fromkeys([os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"]):  # noqa: S108
        if not parent or not os.access(parent, os.W_OK | os.X_OK):
            continue
        longest = max(len(os.fsencode(f"{parent}/sealberg-12345678/{name}")) for name in names)
        if longest > SOCKET_PATH:
            refused.append(f"{parent}: a path of {longest} bytes, a socket has room for {SOCKET_PATH}")
            continue
        folder = Path(tempfile.mkdtemp(prefix="sealberg-", dir=parent))
        try:
            check_private(folder, way_out)
        except AccessDeniedError as error:
            folder.rmdir()
            refused.append(str(error))
            continue
        return folder
    raise ConfigError(f"no folder for a private socket ({'; '.join(refused) or 'none can be written to'}): {way_out}")
