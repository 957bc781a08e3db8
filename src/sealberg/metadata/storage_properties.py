"""Decides who may set the properties of storage; no other module decides this.

    the operator     the catalog's own configuration, or the properties given to `open_table`: all properties
    a REST server    `config` and vended credentials: short-lived credentials; endpoints that the operator allows
    table metadata   files in storage: only the names in FROM_METADATA

An attacker who can write to the storage, or who controls the REST server, must not be able to name code to import, a
server that receives credentials, or a credential to use. Other properties than those listed below are dropped, with
one warning for each table. An endpoint that is not allowed is refused: without it, files would go to another store.

    for_file_io, from_server   the properties of a FileIO besides the operator's
    refuse_remote_signing      refuses a FileIO that would send requests without the server's signatures
    location_provider          the paths of new files; only the operator may choose its class
    without_code               table properties for PyIceberg, without names of code that PyIceberg would import
    catalog_config             the part of a REST server's configuration that is used
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyiceberg.table import TableProperties
from pyiceberg.table.locations import load_location_provider

from sealberg.errors import ConfigError, TrustError, UnsupportedError
from sealberg.properties.table_names import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import FileIO
    from pyiceberg.table.locations import LocationProvider

_log: Final = logging.getLogger(__name__)

# -- names ----------------------------------------------------------------------------------------

PROVIDER: Final = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
ALLOWED_ENDPOINTS: Final = "sealberg.rest.storage-endpoints"

# Prefixes of properties that open storage or name code; never taken from table metadata.
STORAGE_PREFIXES: Final = (
    "s3.",
    "s3tables.",
    "gcs.",
    "adls.",
    "hdfs.",
    "hf.",
    "client.",
    "glue.",
    "fs.",
    "auth.",
)
FROM_METADATA: Final = frozenset({"s3.connect-timeout", "s3.request-timeout", "pyarrow.use-large-types-on-read"})

# The properties that a REST server may vend: credentials and their lifetimes.
VENDED: Final = frozenset(
    {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.session-token-expires-at-ms",
        "s3.path-style-access",
        "s3.force-virtual-addressing",
        "gcs.oauth2.token",
        "gcs.oauth2.token-expires-at",
        "gcs.project-id",
        "adls.token",
        "token",
        "expiration-time",
    }
)
VENDED_PREFIXES: Final = ("adls.sas-token",)
SAS_OF_ACCOUNT: Final = "adls.sas-token."
AZURE_CREDENTIALS: Final = ("adls.account-key", "adls.client-id", "adls.client-secret", "adls.tenant-id")
REGIONS: Final = frozenset({"s3.region", "client.region"})
REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")  # so that a region cannot change the host name of a URL
ENDPOINTS: Final = frozenset({"s3.endpoint", "gcs.service.host"})
REFRESHING: Final = frozenset({"client.refresh-credentials-endpoint", "client.refresh-credentials-enabled"})
SIGNERS: Final = frozenset({"s3.signer", "s3.signer.uri", "s3.signer.endpoint", "s3.remote-signing-enabled"})

# The properties that a REST server may set for its clients (GET /v1/config).
CATALOG_CONFIG: Final = frozenset(
    {
        "prefix",
        "warehouse",
        "namespace-separator",
        "view-endpoints-supported",
        "snapshot-loading-mode",
        "scan-planning-mode",
        "rest-page-size",
        "default-base-location",
    }
)
HARMFUL_PREFIXES: Final = ("header.", "rest.", "encryption.", "sealberg.", "table-default.", "table-override.")


def names_code(name: str) -> bool:
    """Whether the value of this property names code to import."""
    last = name.lower().rpartition(".")[2]
    return last.startswith("py-") or name.lower().startswith("py-") or last == "impl" or last.endswith("-impl")


def about_storage(name: str) -> bool:
    """Whether this property configures the access to storage, or names code to import."""
    return names_code(name) or name.lower().startswith(STORAGE_PREFIXES)


# -- the FileIO of a table ------------------------------------------------------------------------


def for_file_io(own: Mapping[str, Any], metadata: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table that a FileIO uses; the operator's properties take precedence."""
    kept = {name: value for name, value in metadata.items() if name in FROM_METADATA and name not in own}
    return {**addressing(own), **sas_of_account(own), **kept}


def sas_of_account(properties: Mapping[str, Any], location: str = "") -> dict[str, str]:
    """The SAS token for an account of Azure as PyArrow takes it: `adls.sas-token`, with a question mark before it.

    REST catalogs name a token `adls.sas-token.ACCOUNT.dfs.core.windows.net`. PyIceberg's FsspecFileIO reads such names,
    its PyArrowFileIO does not. The account is the operator's, that of the location, or the only one that has a token.
    """
    given = properties.get("adls.sas-token")
    tokens = {
        name.removeprefix(SAS_OF_ACCOUNT).partition(".")[0]: str(value)
        for name, value in properties.items()
        if name.startswith(SAS_OF_ACCOUNT)
    }
    of_location = urlsplit(location).netloc.rpartition("@")[2].partition(".")[0] if "@" in location else None
    only = next(iter(tokens)) if len(tokens) == 1 else None
    account = properties.get("adls.account-name") or of_location or only
    if given is not None:
        return {"adls.sas-token": f"?{str(given).removeprefix('?')}"}
    if account not in tokens:
        return {}
    return {"adls.account-name": account, "adls.sas-token": f"?{tokens[account].removeprefix('?')}"}


def vended_sas(own: Mapping[str, Any], vended: Mapping[str, str], location: str) -> dict[str, str]:
    """A SAS token that a REST server vends, as PyArrow takes it; it takes the place of the operator's credentials.

    With two kinds of credentials at once PyArrow and Hadoop would choose the operator's, or refuse both. An empty value
    is none to them.
    """
    others = {name: value for name, value in own.items() if not name.startswith(VENDED_PREFIXES)}
    found = sas_of_account({**others, **vended}, location)
    return {**{name: "" for name in AZURE_CREDENTIALS if name in own}, **found} if found else {}


def addressing(properties: Mapping[str, Any]) -> dict[str, str]:
    """Java's `s3.path-style-access` as PyIceberg's `s3.force-virtual-addressing`."""
    path_style, virtual = properties.get("s3.path-style-access"), properties.get("s3.force-virtual-addressing")
    if path_style is None:
        return {}
    wanted = {"true": "false", "false": "true"}.get(str(path_style).lower())
    if wanted is None:
        raise ConfigError(f"s3.path-style-access must be true or false, found {path_style!r}")
    if virtual is not None and str(virtual).lower() != wanted:
        raise ConfigError(
            f"s3.path-style-access={path_style} and s3.force-virtual-addressing={virtual} contradict each other; "
            "set one of them"
        )
    return {"s3.force-virtual-addressing": wanted}


def warn_of(table: str, own: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Warn about storage properties in a table's metadata, which are ignored; called when the table is loaded."""
    names = (name for name in metadata if about_storage(name) and name not in FROM_METADATA and name not in own)
    _warn(f"table {table}", "its metadata", names)


def from_server(table: str, own: Mapping[str, Any], server: Mapping[str, str], uri: str) -> dict[str, str]:
    """The properties of a REST server that the FileIO of a table uses besides the operator's.

    Args:
        table: the name of the table, for messages.
        own: the operator's properties, which take precedence over all but vended credentials.
        server: `config` and vended credentials of the server.
        uri: the URI of the server.
    """
    kept: dict[str, str] = {}
    signed_here = _origin(server.get("s3.signer.uri") or uri) == _origin(uri)
    for name, value in server.items():
        if name in VENDED or name.startswith(VENDED_PREFIXES):
            kept[name] = value
        elif name in REGIONS:
            if name not in own and REGION.fullmatch(str(value)):
                kept[name] = value
        elif name in ENDPOINTS:
            if name not in own:
                kept[name] = _allowed_endpoint(table, own, name, str(value))
        elif name in SIGNERS and signed_here:
            kept[name] = value
    if "s3.path-style-access" in kept and not {"s3.path-style-access", "s3.force-virtual-addressing"} & {*own}:
        kept |= addressing(kept)
    known = {*kept, *own, *REFRESHING}
    names = (name for name in server if about_storage(name) and name not in known)
    _warn(f"table {table}", "the REST server", names)
    return kept


def refuse_remote_signing(table: str, given: Mapping[str, Any], io: FileIO) -> None:
    """Refuse a table with remote signing, if its FileIO would send unsigned requests.

    PyIceberg's FsspecFileIO supports remote signing. If the server also vends credentials, no signing is needed.
    """
    wanted = "s3.signer" in given or str(given.get("s3.remote-signing-enabled", "")).lower() == "true"
    if not wanted or "s3.access-key-id" in given or ("s3.signer" in io.properties and _is_fsspec(io)):
        return
    raise UnsupportedError(
        f"the REST server requires remote signing for the storage of table {table}, which "
        f"{type(io).__name__} does not support: let the server vend credentials, or set "
        "py-io-impl=pyiceberg.io.fsspec.FsspecFileIO and s3.signer=S3V4RestSigner (pip install 'sealberg[s3]')"
    )


def _is_fsspec(io: FileIO) -> bool:
    return type(io).__module__ == "pyiceberg.io.fsspec"


def _allowed_endpoint(table: str, own: Mapping[str, Any], name: str, value: str) -> str:
    allowed = [each.strip() for each in str(own.get(ALLOWED_ENDPOINTS, "")).split(",") if each.strip()]
    if _origin(value) not in map(_origin, allowed):
        raise TrustError(
            f"the REST server names the storage endpoint {_origin(value)} ({name}) for table {table}, which the "
            f"catalog's configuration does not allow: set {name} in the configuration, or list the endpoint in "
            f"{ALLOWED_ENDPOINTS}"
        )
    return value


def _origin(url: str) -> str:
    """Scheme, host and port of a URL, without the parts that may hold a secret."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
    except ValueError:
        return "an invalid address"
    return f"{parts.scheme.lower()}://{(parts.hostname or '').lower()}{f':{port}' if port else ''}"


def same_origin(first: str, second: str) -> bool:
    """Whether both URLs have the same scheme, host and port."""
    return _origin(first) == _origin(second)


# -- where new files go ---------------------------------------------------------------------------


def location_provider(location: str, properties: Mapping[str, str], own: Mapping[str, Any]) -> LocationProvider:
    """The location provider of a table. Only the catalog's configuration may name its class; a table may not."""
    for name in (TableProperties.OBJECT_STORE_ENABLED, TableProperties.WRITE_OBJECT_STORE_PARTITIONED_PATHS):
        value_of(properties, name, None)  # PyIceberg's own error would be a ValueError
    return load_location_provider(location, without_code(properties, own))


def without_code(properties: Mapping[str, str], own: Mapping[str, Any]) -> dict[str, str]:
    """The properties of a table without names of code, but with the operator's location provider."""
    kept = {name: value for name, value in properties.items() if not names_code(name)}
    return {**kept, PROVIDER: str(own[PROVIDER])} if PROVIDER in own else kept


def check_given(properties: Iterable[str]) -> None:
    """Refuse new table properties that would be ignored whenever the table is loaded."""
    found = sorted(name for name in properties if about_storage(name) and name not in FROM_METADATA)
    if found:
        raise ConfigError(
            f"{', '.join(found)} cannot be a property of a table: set properties of storage and classes to import in "
            "the configuration of the catalog"
        )


# -- what a REST server configures its clients with -----------------------------------------------


def catalog_config(server: str, own: Mapping[str, Any], merged: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of a REST catalog: the operator's, and the allowed ones of the server.

    Args:
        server: the name of the server, for messages.
        own: the operator's properties.
        merged: the operator's properties after the server's defaults and overrides.
    """
    changed = {name: value for name, value in merged.items() if own.get(name) != value}
    if "uri" in changed and not same_origin(str(changed["uri"]), str(own["uri"])):
        raise TrustError(
            f"{server} sends its clients to {_origin(str(changed['uri']))}; if that is the catalog, set uri to it"
        )
    kept = {name: value for name, value in changed.items() if name == "uri" or name in CATALOG_CONFIG}
    storage = {name: str(value) for name, value in changed.items() if about_storage(name)}
    vended = from_server("*", own, storage, str(own["uri"])) if storage else {}
    harmful = ("auth", "ssl", "credential", "token", "oauth2-server-uri", "scope", "audience", "resource")
    _warn(
        "all tables",
        server,
        (name for name in changed if name in harmful or name.startswith(HARMFUL_PREFIXES)),
    )
    return {**own, **vended, **kept}


# -- warnings -------------------------------------------------------------------------------------

_warned: Final[set[tuple[str, str, tuple[str, ...]]]] = set()


def _warn(table: str, who: str, names: Iterable[str]) -> None:
    """Log once which properties were dropped. Names only: a value may be a secret or hold control characters."""
    found = tuple(sorted({ascii(name)[1:-1][:80] for name in names}))
    if not found or (table, who, found) in _warned:
        return
    if len(_warned) < 10_000:  # a hostile server could send new names for ever
        _warned.add((table, who, found))
    _log.warning(
        "%s: %s may not set properties of storage or classes to import, so these properties are ignored: %s; "
        "to use them, set them in the catalog's configuration",
        table,
        who,
        ", ".join(found[:20]),
    )
