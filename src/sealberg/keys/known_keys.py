"""Adds the ids of existing keys, and what to do, to a KeyNotFoundError.

    with_known_keys(error, client, "pay")              "...; existing keys: finance, hr; restore the key ..."
    with_known_keys(error, client, "pay", new=True)    "...; restore the key ...; `sealberg keystore add pay`"

A key that wrapped something before must be restored: a new key of its id opens none of it. Only where a key is about to
be wrapped, the master key may be one that never was.

The provider is asked once, when a key was not found. If the provider does not answer or denies the
request, the error stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import KeyNotFoundError

if TYPE_CHECKING:
    from sealberg.keys.kms.client import KmsClient

MOST: Final = 20  # ids in one message


def with_known_keys(
    error: KeyNotFoundError, client: KmsClient, master_key_id: str, *, new: bool = False
) -> KeyNotFoundError:
    """The same error, with the ids of existing keys and what to do about the missing key.

    Args:
        new: the key was asked to wrap, so it may be a key that has to be made first.
    """
    try:
        found = client.key_ids(MOST + 1)
    except Exception:  # noqa: BLE001 (the missing key matters more than a failure to list others)
        found = None
    parts = [error.reason]
    if found is not None:
        shown = ", ".join(sorted(found)[:MOST]) + (" and more" if len(found) > MOST else "")
        parts.append(f"existing keys: {shown}" if found else "there are no keys yet")
    parts.append("restore the key from a backup if it is lost: a new key of this id opens nothing of the old one")
    if new and (command := client.command_to_make(master_key_id)) is not None:
        parts.append(f"only for a key that never was, `{command}`")
    return KeyNotFoundError("; ".join(parts), **error.context)
