"""A FileIO that stays in the stores that the catalog and the operator name.

    s3://lake/t/metadata/1.metadata.json    the pointer of the catalog
        manifest-list  s3://other/x         the same store, another bucket: the same endpoint and credentials
                       hdfs://evil:9000/x   another store: refused, for it would connect to a host that a file names
                       file:///etc/passwd   the same: refused, for a table in a bucket has no business on this machine

In a location of HDFS the host is a server to connect to; in those of object stores it is a bucket, and the endpoint is
the operator's. Metadata may name buckets, and neither stores nor hosts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pyiceberg.io import FileIO

from sealberg.errors import TrustError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyiceberg.io import InputFile, OutputFile

ALLOWED: Final = "sealberg.storage.locations"
FAMILIES: Final = {
    "": "file",
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
}
WITH_HOST: Final = ("hdfs", "viewfs", "http", "https", "ftp")


def store(location: str) -> str:
    """The store of a location: the kind of storage, and the host where a location names one."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "unknown"
    scheme = parts.scheme.lower()
    family = FAMILIES.get(scheme, scheme)
    return f"{family}://{parts.netloc.lower()}" if family in WITH_HOST else family


def names_host(location: str) -> bool:
    """Is there a server in this location to connect to?"""
    return store(location).partition("://")[0] in WITH_HOST


def stores(properties: Mapping[str, Any], *locations: str | None) -> frozenset[str]:
    """Those of the operator's properties, and those of the locations that a catalog vouches for."""
    named: list[str] = [each.strip() for each in str(properties.get(ALLOWED, "")).split(",") if each.strip()]
    if (host := properties.get("hdfs.host")) is not None:
        named += [f"hdfs://{host}", f"hdfs://{host}:{properties.get('hdfs.port', 8020)}", "hdfs://"]
    warehouse = str(properties.get("warehouse") or "")
    if "://" in warehouse:  # of a REST catalog it may be a name
        named.append(warehouse)
    return frozenset(map(store, [*named, *filter(None, locations)]))


class ConfinedFileIO(FileIO):
    """Refuses a location in a store that is not among those given."""

    def __init__(self, inner: FileIO, allowed: Iterable[str]) -> None:
        super().__init__(inner.properties)
        self.inner = inner
        self._allowed = frozenset(allowed)

    def new_input(self, location: str) -> InputFile:
        return self.inner.new_input(self.checked(location))

    def new_output(self, location: str) -> OutputFile:
        return self.inner.new_output(self.checked(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.checked(location if isinstance(location, str) else location.location)
        self.inner.delete(location)

    def checked(self, location: str) -> str:
        """The location, if it is in one of the stores."""
        if (found := store(location)) not in self._allowed:
            raise TrustError(
                f"{str(location)[:300]} is in another store ({found[:100]}) than its table "
                f"({', '.join(sorted(self._allowed))}); if it belongs there, list the store in {ALLOWED} in the "
                "catalog's configuration"
            )
        return location


def check_store(io: FileIO, location: str) -> None:
    """Refuse a location that others will open, where this FileIO would."""
    at: Any = io
    while at is not None and not isinstance(at, ConfinedFileIO):
        at = getattr(at, "inner", None)
    if at is not None:
        at.checked(location)
