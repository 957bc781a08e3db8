"""Catalogs: where the tables are, and who vouches for them.

load_catalog("prod")   PyIceberg's own configuration (.pyiceberg.yaml, PYICEBERG_*), and PyIceberg's own type
load_catalog()         the default catalog, the same for Python, Spark and the command line:
                         PyIceberg's `default-catalog`
                         else the catalog `default`, if one is configured
                         else `local`: SQLite, a local folder and a local keystore under ~/.sealberg

sql, in-memory         encrypted tables
hive                   encrypted tables, shared with Iceberg Java
glue                   encrypted tables
rest                   encrypted tables, for which the server vouches
all others             plain tables as in PyIceberg; an encrypted one is refused, never read or written in the clear
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from sealberg.catalogs.guard import guarded
from sealberg.errors import ConfigError, SealbergError
from sealberg.keys.kms.client import KMS_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.utils.config import Config

HOME: Final = "SEALBERG_HOME"
LOCAL: Final = "local"
SEALED: Final = {
    "sql": ("sql.catalog", "EncryptedSqlCatalog"),
    "in-memory": ("sql.catalog", "EncryptedInMemoryCatalog"),
    "hive": ("hive.catalog", "EncryptedHiveCatalog"),
    "glue": ("glue", "EncryptedGlueCatalog"),
    "rest": ("rest.catalog", "EncryptedRestCatalog"),
}


def load_catalog(name: str | None = None, **properties: str) -> Catalog:
    """A catalog with encrypted tables, configured as for `pyiceberg.catalog.load_catalog`.

    Args:
        name: of the catalog in PyIceberg's configuration; without a name, the default catalog (`default_catalog`).
        properties: added to the configuration. `encryption.kms-type` and its like choose the KMS.
    """
    configured = _configuration()  # before PyIceberg reads it at import, and fails without the name of the file

    from pyiceberg.catalog import PY_CATALOG_IMPL, TYPE, URI, CatalogType, infer_catalog_type
    from pyiceberg.catalog import load_catalog as load_plain
    from pyiceberg.utils.config import merge_config

    described = bool({URI, TYPE, PY_CATALOG_IMPL} & properties.keys())
    if name is None:
        name = configured.get_default_catalog_name() if described else _default_name(configured)
    found = _found(name, configured)
    if not found and not described:
        if name == LOCAL:
            return _local(properties)
        raise ConfigError(_not_configured(name, configured))
    merged = cast("dict[str, Any]", merge_config(found or {}, cast("Any", properties)))
    settings = _settings(merged)
    with _refusing(name):
        if PY_CATALOG_IMPL in settings:
            return guarded(load_plain(name, **settings), settings[PY_CATALOG_IMPL], settings)
        kind = settings.get(TYPE, "").lower()
        kind = kind or cast("CatalogType", infer_catalog_type(name, cast("Any", merged))).value
        if kind not in SEALED or (kind in (CatalogType.SQL.value, CatalogType.REST.value) and URI not in settings):
            return guarded(load_plain(name, **settings), kind, settings)
    return _sealed(kind)(name, **settings)


def catalog_properties(name: str | None = None) -> tuple[str, dict[str, Any]]:
    """The name of a catalog and its configured properties; connects to nothing."""
    configured = _configuration()
    name = name if name is not None else _default_name(configured)
    found = _found(name, configured)
    if found:
        return name, _settings(found)
    if name == LOCAL:
        return name, _local_settings(_home())
    raise ConfigError(_not_configured(name, configured))


def default_catalog() -> str:
    """The name of the catalog that is meant where none is named."""
    return _default_name(_configuration())


def configured_catalogs() -> list[str]:
    """The names of the catalogs in PyIceberg's configuration, in lower case as it keeps them."""
    return _known(_configuration())


def local_exists() -> bool:
    """Whether the catalog `local` has been used on this machine, and no configured catalog has its name."""
    return LOCAL not in configured_catalogs() and (_home() / "catalog.db").exists()


def _default_name(configured: Config) -> str:
    with _refusing("default-catalog"):
        name = configured.get_default_catalog_name()  # "default" where PyIceberg's configuration names none
    named = "default-catalog" in configured.config
    return name if named or name in _known(configured) else LOCAL


def _known(configured: Config) -> list[str]:
    with _refusing("catalog"):
        return sorted(configured.get_known_catalogs())


def _found(name: str, configured: Config) -> Any:
    """What PyIceberg's configuration says of a catalog with exactly this name; None for nothing.

    PyIceberg keeps names in lower case, and so finds the properties of `prod` for PROD and Prod.
    """
    with _refusing(name):
        found = configured.get_catalog_config(name)
    if found and name != name.lower() and name not in _spelled():
        raise ConfigError(
            f"no catalog {name} is configured, and {name.lower()} is: names of catalogs are exact, and those of "
            "PYICEBERG_CATALOG__* variables are in lower case"
        )
    return found


def _spelled() -> set[str]:
    """The names of catalogs as the file of PyIceberg's configuration spells them."""
    import strictyaml  # type: ignore[import-untyped]

    file = _file()
    content = strictyaml.load(file.read_text()).data if file else None  # which PyIceberg has read without an error
    return {name for key, names in dict(content or {}).items() if key.lower() == "catalog" for name in names}


def _configuration() -> Config:
    """PyIceberg's configuration, as it is now."""
    from pyiceberg.utils.config import Config

    try:
        return Config()
    except OSError:
        raise
    except Exception as error:  # of the YAML parser, or an AttributeError for a file that holds no mapping
        file = _file() or "the PYICEBERG_* variables"
        found = "it holds no mapping of names to values" if isinstance(error, AttributeError) else error
        raise ConfigError(f"PyIceberg's configuration in {file} cannot be read: {found}") from error


def _file() -> Path | None:
    """The file that PyIceberg reads, which does not say so: the first one that exists."""
    from pyiceberg.utils.config import PYICEBERG_HOME, PYICEBERG_YML

    folders = (os.environ.get(PYICEBERG_HOME), Path.home(), Path.cwd())
    return next((file for folder in folders if folder and (file := Path(folder) / PYICEBERG_YML).is_file()), None)


def _not_configured(name: str, configured: Config) -> str:
    where, known = ".pyiceberg.yaml and PYICEBERG_CATALOG__* variables", _known(configured)
    named = name == configured.config.get("default-catalog")
    missing = f"no catalog {name} is configured" + (", though default-catalog names it" if named else "")
    if not known:
        return f"{missing}; there is no catalog in {where}"
    return f"{missing}; the configured catalogs are {', '.join(known)} (from {where})"


@contextlib.contextmanager
def _refusing(name: str) -> Iterator[None]:
    """What PyIceberg says of a wrong configuration, as an error of ours."""
    try:
        yield
    except SealbergError:
        raise
    except ValueError as error:
        raise ConfigError(f"PyIceberg's configuration of {name} is wrong: {error}") from error


def _sealed(kind: str) -> Callable[..., Catalog]:
    module, made = SEALED[kind]
    try:
        found: Callable[..., Catalog] = getattr(import_module(f"sealberg.catalogs.{module}"), made)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        raise ConfigError(
            f"{kind} catalogs need the package {missing}: pip install 'sealberg[{kind}]' brings it"
        ) from error
    return found


def _local(properties: dict[str, str]) -> Catalog:
    from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog

    home = _home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = home / "catalog.db"
    if database.exists():
        database.chmod(0o600)  # an older release may have made it
    return EncryptedSqlCatalog(LOCAL, **{**_local_settings(home), **properties})


def _home() -> Path:
    return Path(os.environ.get(HOME) or "~/.sealberg").expanduser().absolute()


def _local_settings(home: Path) -> dict[str, Any]:
    return {
        "uri": f"sqlite:///{home / 'catalog.db'}",
        "warehouse": f"file://{home / 'warehouse'}",
        KMS_TYPE: "keystore",
    }


def _settings(properties: Mapping[str, Any]) -> dict[str, Any]:
    # Some settings of REST are nested: `auth`, `ssl`.
    return {
        key: value if isinstance(value, dict) else str(value) for key, value in properties.items() if value is not None
    }
