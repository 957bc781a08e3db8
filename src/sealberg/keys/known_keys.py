"""A key that is not there, and the keys that are: what a KeyNotFoundError tells besides the missing id.

    with_known_keys(error, client)    "...; the keys there are: finance, hr; `sealberg keystore add pay` makes this key"

Asked once, when a key was not found. A provider that does not answer, or may not be asked, leaves the error as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import KeyNotFoundError

if TYPE_CHECKING:
    from sealberg.keys.kms.client import KmsClient

MOST: Final = 20  # ids in one message


def with_known_keys(error: KeyNotFoundError, client: KmsClient, master_key_id: str) -> KeyNotFoundError:
    """The same error, with the ids that exist and the command that makes the missing key, as far as they are known."""
    try:
        found = client.key_ids(MOST + 1)
    except Exception:  # noqa: BLE001 (the key that was not found matters more than why others are not told)
        found = None
    parts = [error.reason]
    if found is not None:
        shown = ", ".join(sorted(found)[:MOST]) + (" and more" if len(found) > MOST else "")
        parts.append(f"the keys there are: {shown}" if found else "there are no keys yet")
    if (command := client.command_to_make(master_key_id)) is not None:
        parts.append(f"`{command}` makes this key")
    return KeyNotFoundError("; ".join(parts), **error.context)
