"""Which tables need a master key, in the catalog of a table and in every other catalog that is configured.

    the table's own catalog ─┐
    configured catalogs      ─┼──> KeyUser: uses the key, or may use it, and why that is not known
    the catalog `local`      ─┘

A catalog whose KMS is surely another one is left out: its keys of the same name are other keys. Tables that no catalog
has, such as Hadoop tables, are not seen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sealberg.catalogs.load import LOCAL, catalog_properties, configured_catalogs, load_catalog, local_exists
from sealberg.errors import NothingThereError, SealbergError
from sealberg.jobs.key_jobs import manager_of, selected
from sealberg.keys.keystore.kms import PATH as KEYSTORE_PATH
from sealberg.keys.keystore.kms import default_path
from sealberg.keys.kms.client import KMS_IMPL, KMS_TYPE
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.catalog import Catalog

    from sealberg.jobs.key_jobs import Selected
    from sealberg.keys.kms.client import KmsClient
    from sealberg.table.catalog_table import CatalogTable

PLACE: Final = ("type", "uri", "warehouse", "glue.id")  # what makes two catalogs of the configuration one


@dataclass(frozen=True)
class KeyUser:
    """A table that uses a master key.

    Attributes:
        doubt: why it is not known whether it does; None if it does.
    """

    name: str
    doubt: str | None = None

    def __str__(self) -> str:
        return f"the table {self.name} uses it too" if self.doubt is None else f"{self.name} may use it: {self.doubt}"


def key_users(table: CatalogTable, key_id: str) -> Iterator[KeyUser]:
    """The other tables that use this master key of the KMS of a table, or may use it."""
    catalog, same = table.catalog, _SameKey(manager_of(table).kms, key_id)
    yield from _of_catalog(catalog, same, "", but=table)
    for name in (*configured_catalogs(), *((LOCAL,) if local_exists() else ())):
        label, properties = catalog_properties(name)
        if _is_same_catalog(catalog, label, properties) or not _may_share_kms(catalog.properties, properties):
            continue
        try:
            opened = load_catalog(label)
        except Exception as error:  # noqa: BLE001 (clients of catalogs raise anything, and then nothing is known)
            yield KeyUser(f"any table of the catalog {label}", f"it does not open ({type(error).__name__}: {error})")
            continue
        with opened:
            yield from _of_catalog(opened, same, f"{label}: ")


def _of_catalog(catalog: Catalog, same: _SameKey, before: str, but: CatalogTable | None = None) -> Iterator[KeyUser]:
    try:
        _, found = selected((), catalog, every=True)
    except NothingThereError:
        return
    except Exception as error:  # noqa: BLE001 (as above)
        name = f"any table of the catalog {catalog.name}"
        yield KeyUser(name, f"its tables cannot be listed ({type(error).__name__}: {error})")
        return
    for each in found:
        if but is not None and each.table is not None and each.table.name() == but.name():
            continue
        if (user := _user(each, same, before)) is not None:
            yield user


def _user(each: Selected, same: _SameKey, before: str) -> KeyUser | None:
    name = f"{before}{each.name}"
    if each.table is None:
        return KeyUser(name, each.reason) if each.status == "failed" else None
    metadata = each.table.metadata
    ids = {str(entry.encrypted_by_id) for entry in metadata.encryption_keys if entry.timestamp is not None}
    ids.add(str(metadata.properties.get(KEY_ID_PROPERTY)))
    doubts = []
    for key_id in sorted(ids):
        answer = same.is_same(key_id)
        if answer is True:
            return KeyUser(name)
        doubts += [answer] if isinstance(answer, str) else []
    return KeyUser(name, doubts[0]) if doubts else None


class _SameKey:
    """Whether another id is the same key: AWS knows a key by its id, its ARN and any number of aliases."""

    def __init__(self, kms: KmsClient, key_id: str) -> None:
        self._kms, self._key_id = kms, key_id
        self._known: dict[str, bool | str] = {key_id: True}

    def is_same(self, key_id: str) -> bool | str:
        """True, False, or why that is not known."""
        if key_id not in self._known:
            self._known[key_id] = self._asked(key_id) if self._kms.provider == "aws" else False
        return self._known[key_id]

    def _asked(self, key_id: str) -> bool | str:
        try:
            one, other = (self._kms.describe(each).get("Arn") for each in (self._key_id, key_id))
        except SealbergError as error:
            return f"the KMS does not tell whether {key_id} is the same key: {error}"
        return one == other


def _is_same_catalog(catalog: Catalog, label: str, properties: Mapping[str, str]) -> bool:
    own = catalog.properties
    return catalog.name == label and all(own.get(name) == properties.get(name) for name in PLACE if name in properties)


def _may_share_kms(own: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two catalogs may have one KMS; only two kinds of KMS, and two keystore files, are surely not one."""
    kinds = [(str(each.get(KMS_TYPE, "")).lower(), each.get(KMS_IMPL)) for each in (own, other)]
    if not any(kinds[1]):
        return True  # a catalog without a KMS may have encrypted tables all the same
    if kinds[0] != kinds[1]:
        return bool(kinds[0][1]) != bool(kinds[1][1])  # one by its type, one by its class: they may be one
    if kinds[0][0] != "keystore":
        return True
    paths = [os.path.realpath(os.path.expanduser(each.get(KEYSTORE_PATH) or default_path())) for each in (own, other)]  # noqa: PTH111
    return paths[0] == paths[1]
