"""Did a commit land whose answer was lost? The catalog is asked again, as Java asks it.

it is the current version, or one before it    it landed
it is neither, and no request is under way     it did not: `CommitFailedException`, and its files may go
it is neither, or the catalog does not answer  nobody knows: `CommitStateUnknownException`, and its files stay
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

from sealberg.catalogs.base import dotted, to_identifier
from sealberg.write.retry import STATUS_CHECK, RetryPolicy

if TYPE_CHECKING:
    from sealberg.catalogs.base import Name
    from sealberg.catalogs.metastore import EncryptedMetastore, Version


def resolve_commit(catalog: EncryptedMetastore, name: Name, version: Version, error: Exception, *, over: bool) -> None:
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
        raise CommitFailedException(
            f"Table has been updated by another process, or the catalog never got the commit: {dotted(name)}: {error}"
        ) from error
    raise CommitStateUnknownException(
        f"the answer to the commit of {dotted(name)} was lost, and {version.location} may be committed: {error}"
    ) from error


def _ask_patiently(catalog: EncryptedMetastore, name: Name, version: Version) -> bool | None:
    policy = RetryPolicy.from_properties(version.metadata.properties, "commit.status-check.", STATUS_CHECK)
    with policy.start_apart() as attempts:
        while True:
            try:
                return _ask(catalog, name, version)
            except Exception:  # noqa: BLE001 (whatever it is, there is no answer)
                if not attempts.wait():
                    return None


def _ask(catalog: EncryptedMetastore, name: Name, version: Version) -> bool:
    identifier = to_identifier(name)
    try:
        found = catalog.load_table(identifier)
    except NoSuchTableError:
        return False
    log = (entry.metadata_file for entry in found.metadata.metadata_log)
    return version.location in (found.metadata_location, *log)
