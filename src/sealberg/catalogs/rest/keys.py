"""A REST server may not choose the key of new tables: whoever owns that key could read them.

refuse_namespace_key    the server says that a namespace has a key
refuse_chosen_key       the server gives a new table a key that its creator did not set
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sealberg.errors import ConfigError
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.table.policy import DEFAULT_KEY_ID

if TYPE_CHECKING:
    from pyiceberg.typedef import Identifier

    from sealberg.metadata.table_metadata import V3TableMetadata


def refuse_namespace_key(server: str, namespace: Identifier, key_id: str | None) -> None:
    if key_id is not None:
        name = ".".join(namespace)
        raise ConfigError(
            f"{server} says that the {KEY_ID_PROPERTY} of the namespace {name} is {key_id}, and a REST server may not "
            f"choose the key of new tables. Set {DEFAULT_KEY_ID}.{name} in the configuration of the catalog, or set "
            f"{KEY_ID_PROPERTY} when you create the table"
        )


def refuse_chosen_key(server: str, name: Identifier, wanted: V3TableMetadata, raw: dict[str, Any]) -> None:
    key_id = (raw.get("properties") or {}).get(KEY_ID_PROPERTY)
    if key_id is not None and KEY_ID_PROPERTY not in wanted.properties:
        raise ConfigError(
            f"{server} gives the new table {'.'.join(name)} the {KEY_ID_PROPERTY} {key_id}, which this client did not "
            f"set, and a REST server may not choose the key of new tables. Set {DEFAULT_KEY_ID} to that key in the "
            f"configuration of the catalog, or set {KEY_ID_PROPERTY} when you create the table"
        )
