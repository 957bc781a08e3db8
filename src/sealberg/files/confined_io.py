"""A FileIO that stays in the stores that the catalog and the operator name, and writes and deletes by normal locations.

    s3://lake/t/metadata/1.metadata.json    the pointer of the catalog
        manifest-list  s3://other/x         the same store, another bucket: the same endpoint and credentials
                       hdfs://evil:9000/x   another store: refused, for it would connect to a host that a file names
                       file:///etc/passwd   the same: refused, for a table in a bucket has no business on this machine

In a location of HDFS the host is a server to connect to; in those of S3 and Google it is a bucket, and the endpoint is
the operator's. Metadata may name buckets, and neither stores nor hosts.

Several schemes name one store: a table that Hadoop wrote as `s3a://` is read as `s3://`.

    s3, s3a, s3n         gs, gcs         abfs, abfss, wasb, wasbs

A location of Azure may name an account, `abfss://container@account.dfs.core.windows.net/path`, and then the account is
part of the store. Without an account it is in the account of the operator, so it names nothing.
"""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.io import FileIO

from sealberg.errors import ConfigError, FormatError, TrustError
from sealberg.files.locations import AUTHORITY, AZURE, FAMILIES, Location, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyiceberg.io import InputFile, OutputFile

ALLOWED: Final = "sealberg.storage.locations"
WITH_HOST: Final = ("hdfs", "viewfs", "http", "https", "ftp")
AZURE_DOMAINS: Final = (".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net")
EXTRAS: Final = {"s3fs": "s3", "adlfs": "adls"}
ARROW: Final = "pyiceberg.io.pyarrow.PyArrowFileIO"


def store(location: str) -> str:
    """The store of a location: the kind of storage, and the host where a location names one."""
    scheme, authority, _ = split(location)
    family = FAMILIES.get(scheme.lower(), scheme.lower())
    if AUTHORITY.fullmatch(authority) is None:
        return "unknown"
    if family == AZURE:
        account = authority.lower().rpartition("@")
        # Blobs and files of an account are the same objects behind two host names.
        return f"{AZURE}://{account[2].replace('.blob.', '.dfs.', 1)}" if account[1] else AZURE
    return f"{family}://{authority.lower()}" if family in WITH_HOST else family


def same_scheme(location: str, other: str) -> str:
    """The location in the scheme of the other, if both schemes name one store."""
    scheme, there, rest = location.partition("://")
    wanted = other.partition("://")[0]
    equal = there and FAMILIES.get(scheme.lower(), scheme.lower()) == FAMILIES.get(wanted.lower(), wanted.lower())
    return f"{wanted}://{rest}" if equal else location


def names_host(location: str) -> bool:
    """Is there a server in this location to connect to? An account at Azure's own domain is as a bucket is."""
    kind, _, host = store(location).partition("://")
    return kind in WITH_HOST or (kind == AZURE and bool(host) and not host.endswith(AZURE_DOMAINS))


def stores(properties: Mapping[str, Any], *locations: str | None) -> frozenset[str]:
    """Those of the operator's properties, and those of the locations that a catalog vouches for."""
    named: list[str] = [each.strip() for each in str(properties.get(ALLOWED, "")).split(",") if each.strip()]
    if (host := properties.get("hdfs.host")) is not None:
        named += [f"hdfs://{host}", f"hdfs://{host}:{properties.get('hdfs.port', 8020)}", "hdfs://"]
    warehouse = str(properties.get("warehouse") or "")
    if "://" in warehouse:  # of a REST catalog it may be a name
        named.append(warehouse)
    if (account := properties.get("adls.account-name")) is not None:
        named.append(f"abfs://@{account}.dfs.core.windows.net")
    found = frozenset(map(store, [*named, *filter(None, locations)]))
    return found | {AZURE} if any(each.startswith(AZURE) for each in found) else found


def refuse_special_file(location: str) -> None:
    """Refuse a named pipe or a device in place of a local file: whoever opens it would wait, or read for ever."""
    if store(location) != "file":
        return
    path = location.removeprefix("file://") if location.startswith("file://") else location.removeprefix("file:")
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return  # for whoever opens it to tell
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise FormatError(f"{location[:300]} is a named pipe, a socket or a device, expected a regular file")


class ConfinedFileIO(FileIO):
    """Refuses a location in a store that is not among those given; and an odd one, except for reading."""

    def __init__(self, inner: FileIO, allowed: Iterable[str]) -> None:
        self.inner = exact(inner)
        self.allowed = frozenset(allowed)
        super().__init__(inner.properties)

    @property
    def properties(self) -> dict[str, Any]:
        return self.inner.properties

    @properties.setter
    def properties(self, value: object) -> None:
        """FileIO's own constructor sets them; they are those of the FileIO inside."""

    def new_input(self, location: str) -> InputFile:
        refuse_special_file(self.checked(location))
        with _naming_extra(location):
            return self.inner.new_input(self._spelled(location))

    def new_output(self, location: str) -> OutputFile:
        place = Location.parse(self.checked(location)).text
        with _naming_extra(location):
            return self.inner.new_output(self._spelled(place))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = Location.parse(self.checked(location if isinstance(location, str) else location.location)).text
        with _naming_extra(place):
            self.inner.delete(self._spelled(place))

    def _spelled(self, location: str) -> str:
        """The location as the FileIO inside can read it; PyIceberg's two know Azure by different names."""
        found = store(location)
        if not found.startswith(AZURE):
            return location
        scheme, _, rest = location.partition("://")
        if self.properties.get("adls.account-name") is not None and self._is_arrow(location):
            container, at, path = rest.partition("@")  # PyArrow takes the account for a part of the container's name
            return f"{scheme}://{container}/{path.partition('/')[2]}" if at and "/" not in container else location
        return f"{FAMILIES.get(scheme.lower(), scheme)}://{rest}" if scheme.lower().startswith("wasb") else location

    def _is_arrow(self, location: str) -> bool:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = self.inner.io(location) if hasattr(self.inner, "io") else self.inner
        return isinstance(io, PyArrowFileIO)

    def checked(self, location: str) -> str:
        """The location, if it is in one of the stores."""
        if (found := store(location)) not in self.allowed:
            raise TrustError(
                f"{str(location)[:300]} is in another store ({found[:100]}) than its table "
                f"({', '.join(sorted(self.allowed))}); if it belongs there, list the store in {ALLOWED} in the "
                "catalog's configuration"
            )
        return location


def exact(io: FileIO) -> FileIO:
    """The FileIO with exact locations (`exact_io`); one that is not PyIceberg's own has ways of its own."""
    if type(io).__module__ not in {"pyiceberg.io.pyarrow", "pyiceberg.io.fsspec"}:
        return io  # and the module with the exact ones, which loads PyArrow, is not needed
    from sealberg.files import exact_io

    return exact_io.exact(io)


@contextlib.contextmanager
def _naming_extra(location: str) -> Iterator[None]:
    """A library that is missing is told with the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (extra := EXTRAS.get(str(error.name))) is None:
            raise
        raise ConfigError(
            f"{location!s} is reached with the package {error.name}, which is not installed: "
            f"pip install 'sealberg[{extra}]', or set py-io-impl={ARROW} in the catalog's configuration"
        ) from error


def check_store(io: FileIO, location: str) -> None:
    """Refuse a location that others will open, where this FileIO would."""
    if (confined := _confined(io)) is not None:
        confined.checked(location)


def allowed_stores(io: FileIO) -> frozenset[str]:
    """The stores that this FileIO stays in; none if it is not confined."""
    confined = _confined(io)
    return confined.allowed if confined is not None else frozenset()


def _confined(io: FileIO) -> ConfinedFileIO | None:
    at: Any = io
    while at is not None and not isinstance(at, ConfinedFileIO):
        at = getattr(at, "inner", None)
    return at
