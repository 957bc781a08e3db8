"""Did a commit land whose answer was lost? The catalog is asked again, as Java asks it.

it is the current version, or one before it    it landed
it is neither, and no request is under way     it did not: `CommitFailedException`, and its files may go
it is neither, or the catalog does not answer  nobody knows: `CommitStateUnknownException`, and its files stay
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

from sealberg.table.catalogs.keyed import dotted, to_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.table.catalogs.keyed import Name
    from sealberg.table.catalogs.metastore import SealedMetastore, Version


def settle(catalog: SealedMetastore, name: Name, version: Version, error: Exception, *, over: bool) -> None:
    """Return if it landed.

    Args:
        catalog, name, version: what was to be committed.
        error: what came instead of an answer.
        over: no request that is still under way can commit it later.
    """
    landed = _ask_patiently(catalog, name, version)
    if landed:
        return
    if over and landed is False:
        raise CommitFailedException(f"Table has been updated by another process: {dotted(name)}") from error
    raise CommitStateUnknownException(
        f"the answer to the commit of {dotted(name)} was lost, and {version.location} may be committed: {error}"
    ) from error


def _ask_patiently(catalog: SealedMetastore, name: Name, version: Version) -> bool | None:
    retries, wait_ms, most_ms = _patience(version.metadata.properties)
    for attempt in range(retries + 1):
        try:
            return _ask(catalog, name, version)
        except Exception:  # noqa: BLE001 (whatever it is, there is no answer)
            if attempt < retries:
                time.sleep(min(wait_ms * 2**attempt, most_ms) / 1000)
    return None


def _ask(catalog: SealedMetastore, name: Name, version: Version) -> bool:
    identifier = to_identifier(name)
    try:
        found = catalog.load_table(identifier)
    except NoSuchTableError:
        return False
    log = (entry.metadata_file for entry in found.metadata.metadata_log)
    return version.location in (found.metadata_location, *log)


def _patience(properties: Mapping[str, str]) -> tuple[int, int, int]:
    def number(name: str, default: int) -> int:
        return max(0, int(properties.get(f"commit.status-check.{name}", default)))

    return number("num-retries", 3), number("min-wait-ms", 1_000), number("max-wait-ms", 60_000)
