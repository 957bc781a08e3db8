"""Finds out whether a commit whose response was lost was applied: the table is loaded again, as in Java.

the metadata file is the current or an older version         applied
it is neither, and no request can still apply it             not applied: `CommitFailedException`, files may be deleted
it is neither, or the catalog does not respond               unknown: `CommitStateUnknownException`, files stay
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError

from sealberg.catalogs.base import dotted, to_identifier
from sealberg.properties.table_names import readable
from sealberg.write.retry import STATUS_CHECK, RetryPolicy

if TYPE_CHECKING:
    from sealberg.catalogs.base import Name
    from sealberg.catalogs.metastore import EncryptedMetastore, Version


def resolve_commit(catalog: EncryptedMetastore, name: Name, version: Version, error: Exception, *, over: bool) -> None:
    """Return if the commit was applied; otherwise raise.

    Args:
        catalog, name, version: the commit.
        error: the error instead of a response.
        over: whether no request can still apply the commit later.
    """
    landed = _ask_patiently(catalog, name, version)
    if landed:
        return
    if over and landed is False:
        raise CommitFailedException(
            f"Table has been updated by another process, or the catalog never received the commit: {dotted(name)}: "
            f"{error}"
        ) from error
    raise CommitStateUnknownException(
        f"the response to the commit of {dotted(name)} was lost: {error}. {version.location} may be committed, so no "
        "file was deleted; load the table to see whether the commit was applied"
    ) from error


def _ask_patiently(catalog: EncryptedMetastore, name: Name, version: Version) -> bool | None:
    policy = RetryPolicy.from_properties(readable(version.metadata.properties), "commit.status-check.", STATUS_CHECK)
    with policy.start_apart() as attempts:
        while True:
            try:
                return _ask(catalog, name, version)
            except Exception:  # noqa: BLE001 (any error means that the state is not known)
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
