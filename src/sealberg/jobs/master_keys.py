"""Which master keys the tables of a catalog use.

    hr.salaries ──> hr          by_key    {"hr": ["hr.salaries", "hr.people"], "pay": [...]}
    lake.events ──> none        plaintext tables are left out
    old.damaged ──> ?           unknown   {"old.damaged": "why its key id is not known"}

The key id comes from the catalog's trust record, where there is one; otherwise the table is loaded. No KMS is asked.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError

from sealberg.catalogs.trusting import TrustingCatalog
from sealberg.errors import NothingThereError, SealbergError
from sealberg.jobs.selection import selected_tables, shown
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.table.base import EncryptedTable

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier


@dataclass
class MasterKeys:
    """The names of tables by their master key, and why it is not known of others."""

    by_key: dict[str, list[str]] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)


def master_keys(catalog: Catalog) -> MasterKeys:
    """The master keys of all tables of a catalog."""
    found = MasterKeys()
    with suppress(NothingThereError), selected_tables(catalog, (), every=True) as (opened, identifiers):
        for identifier in identifiers:
            name = shown(identifier)
            try:
                key_id = _key_id(opened, identifier)
            except NoSuchTableError:
                continue  # somebody has dropped it
            except (SealbergError, OSError) as error:
                found.unknown[name] = str(error)
                continue
            if key_id is not None:
                found.by_key.setdefault(key_id, []).append(name)
    return found


def _key_id(catalog: Catalog, identifier: Identifier) -> str | None:
    if isinstance(catalog, TrustingCatalog):
        trusted = catalog.trusted(identifier)
        return None if trusted is None else trusted.key_id
    table = catalog.load_table(identifier)
    return table.metadata.properties.get(KEY_ID_PROPERTY) if isinstance(table, EncryptedTable) else None
