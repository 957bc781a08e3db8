"""Catalogs: where the tables are, and who vouches for them.

load_catalog("prod")   PyIceberg's own configuration (.pyiceberg.yaml, PYICEBERG_*), and PyIceberg's own type
load_catalog()         nothing configured: SQLite, a local folder and a local keystore under ~/.sealberg

sql, in-memory         encrypted tables
all others             plain tables as in PyIceberg; an encrypted one is refused, never read or written in the clear
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from sealberg.errors import UnsupportedError
from sealberg.keys.kms import KMS_TYPE
from sealberg.keys.manager import KEY_ID_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

HOME: Final = "SEALBERG_HOME"
LOCAL: Final = "local"


def load_catalog(name: str | None = None, **properties: str) -> Catalog:
    """A catalog with encrypted tables, configured as for `pyiceberg.catalog.load_catalog`.

    Args:
        name: of the catalog in PyIceberg's configuration; without one, the default there, or a local catalog.
        properties: added to the configuration. `encryption.kms-type` and its like choose the KMS.
    """
    from pyiceberg.catalog import CatalogType, infer_catalog_type
    from pyiceberg.catalog import load_catalog as load_plain
    from pyiceberg.utils.config import Config, merge_config

    configured = Config()
    found = configured.get_catalog_config(name or configured.get_default_catalog_name())
    if name is None and not found and "uri" not in properties and "type" not in properties:
        return _local(properties)
    name = name or configured.get_default_catalog_name()
    merged = cast("dict[str, Any]", merge_config(found or {}, cast("Any", properties)))
    kind = merged.get("type") or infer_catalog_type(name, cast("Any", merged))
    kind = kind.value if isinstance(kind, CatalogType) else str(kind).lower()
    settings = {key: str(value) for key, value in merged.items() if value is not None and key != "type"}
    if kind == CatalogType.SQL.value:
        from sealberg.table.catalogs.sql import SealedSqlCatalog

        return SealedSqlCatalog(name, **settings)
    if kind == CatalogType.IN_MEMORY.value:
        from sealberg.table.catalogs.sql import SealedInMemoryCatalog

        return SealedInMemoryCatalog(name, **settings)
    return _guarded(load_plain(name, **properties), kind)


def _local(properties: dict[str, str]) -> Catalog:
    from sealberg.table.catalogs.sql import SealedSqlCatalog

    home = Path(os.environ.get(HOME) or "~/.sealberg").expanduser().absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = {
        "uri": f"sqlite:///{home / 'catalog.db'}",
        "warehouse": (home / "warehouse").as_uri(),
        KMS_TYPE: "keystore",
        **properties,
    }
    catalog = SealedSqlCatalog(LOCAL, **settings)
    # Only the owner's: it says where everything is, and vouches for it.
    (home / "catalog.db").chmod(0o600)
    return catalog


def _guarded(catalog: Catalog, kind: str) -> Catalog:
    """A catalog that knows nothing of encryption, made to refuse it: it would write such tables in the clear."""
    plain = type(catalog)

    def refuse(what: str) -> None:
        raise UnsupportedError(f"{what} is encrypted, and encrypted tables in {kind} catalogs are not supported yet")

    def load_table(self: Any, identifier: Any, *args: Any, **kwargs: Any) -> Any:
        table = plain.load_table(self, identifier, *args, **kwargs)
        if KEY_ID_PROPERTY in table.metadata.properties:
            refuse(f"table {'.'.join(table.name())}")
        return table

    def creating(method: str) -> Any:
        def create(self: Any, identifier: Any, *args: Any, **kwargs: Any) -> Any:
            properties = kwargs.get("properties") or (args[4] if len(args) > 4 else {})
            if KEY_ID_PROPERTY in properties:
                refuse(f"table {identifier}")
            return getattr(plain, method)(self, identifier, *args, **kwargs)

        return create

    makers = ("create_table", "create_table_if_not_exists", "create_table_transaction", "replace_table_transaction")
    members = {name: creating(name) for name in makers if hasattr(plain, name)}
    catalog.__class__ = type(plain.__name__, (plain,), {"load_table": load_table, **members})
    return catalog
