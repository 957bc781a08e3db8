"""Adds the ids of existing keys, and the command that creates the missing key, to a KeyNotFoundError.

    with_known_keys(error, client)    "...; existing keys: finance, hr; create the key with `sealberg keystore add pay`"

The provider is asked once, when a key was not found. If the provider does not answer or denies the
request, the error stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import KeyNotFoundError

if TYPE_CHECKING:
    from sealberg.keys.kms.client import KmsClient

MOST: Final = 20  # ids in one message


def with_known_keys(error: KeyNotFoundError, client: KmsClient, master_key_id: str) -> KeyNotFoundError:
    """The same error, with the ids of existing keys and the command that creates the missing key, if known."""
    try:
        found = client.key_ids(MOST + 1)
    except Exception:  # noqa: BLE001 (the missing key matters more than a failure to list others)
        found = None
    parts = [error.reason]
    if found is not None:
        shown = ", ".join(sorted(found)[:MOST]) + (" and more" if len(found) > MOST else "")
        parts.append(f"existing keys: {shown}" if found else "there are no keys yet")
    if (command := client.command_to_make(master_key_id)) is not None:
        parts.append(f"create the key with `{command}`")
    return KeyNotFoundError("; ".join(parts), **error.context)
