"""Where a warehouse is, whatever folder a program was started in.

wh, ./wh, file:wh      below the current folder: made absolute when the catalog is loaded
~/wh, ~user/wh         below a home folder
file://wh              names a host, which no reader of local files looks at: refused
s3://bucket/wh         as it is
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from sealberg.errors import ConfigError

WAREHOUSE: Final = "warehouse"
_FILE: Final = re.compile(r"file:(//(?P<host>[^/]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def absolute(warehouse: str) -> str:
    """The warehouse as tables name it; a later program may begin in another folder."""
    if not warehouse.strip():
        return warehouse
    if (file := _FILE.fullmatch(warehouse)) is None:
        return warehouse if _SCHEME.match(warehouse) else _absolute(warehouse)
    host, path = file["host"], file["path"]
    if host and host.lower() != "localhost":
        raise ConfigError(
            f"the warehouse {warehouse} names the host {host}, and local files have none: write "
            f"file://{_absolute(f'{host}{path}')}"
        )
    if host is not None and not path.startswith("/"):
        raise ConfigError(f"the warehouse {warehouse} has no path, expected file:///FOLDER")
    return warehouse if path.startswith("/") else f"file://{_absolute(path)}"


def _absolute(path: str) -> str:
    try:
        found = Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the warehouse {path} is in a home folder that is not known: {error}") from None
    if found.is_absolute() and path.startswith("/"):
        return path
    return os.path.abspath(found)  # noqa: PTH100 (Path.absolute keeps `..`, and resolve follows links)
