"""All kinds of catalogs with encrypted tables, on real servers, for tests that all catalogs must pass.

    def test_...(lake): ...          runs on SQLite, and on each other kind in `make deep`
    def test_...(vouching): ...      the same for each kind with trust records
    @pytest.mark.every_catalog       on each kind in `make test`, too: the contract of all catalogs

    lake.connect()                   a fresh client of the same catalog, closed at the end of the test
    lake.files()                     every file of its tables
    lake.meddling.point_at(...)      changes the catalog's database as a tool that does not know trust records

A lake has the empty namespace `db`, and a KMS in memory with the key `hr`. To add a kind of catalog, write a context
manager that gives a Lake for an empty folder, and add it to KINDS.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest
from pyiceberg.catalog import load_catalog as load_plain
from pyiceberg.catalog.sql import IcebergTables
from sqlalchemy import create_engine, delete, update
from sqlalchemy.orm import Session

import sealberg
from kit.servers.glue import glue as empty_glue
from kit.servers.glue import set_parameters as set_glue_parameters
from kit.servers.metastore import set_parameters as set_hive_parameters
from kit.servers.metastore import shared_metastore
from kit.servers.postgres import MEMORY_KMS, empty_database
from kit.servers.rest_server import rest_server
from sealberg.catalogs.sql.trust_table import TRUST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager


class Meddling(Protocol):
    """Changes by another tool to the catalog's record of a table of `db`."""

    def point_at(self, table: str, location: str) -> None:
        """Move the pointer, and nothing else."""

    def set_key_id(self, table: str, key_id: str | None) -> None:
        """Change or remove the key id that the catalog vouches for."""


@dataclass
class Lake:
    """A catalog and the files of its tables.

    Args:
        properties: for `load_catalog`, with the KMS.
        warehouse: the folder of all tables.
        meddling: None if the catalog has no trust records.
    """

    kind: str
    properties: dict[str, str]
    warehouse: Path
    meddling: Meddling | None = None
    opened: ExitStack = field(default_factory=ExitStack)

    def connect(self, **more: str) -> Any:
        """A new client, which shares nothing with the others."""
        return self.opened.enter_context(sealberg.load_catalog("test", **{**self.properties, **more}))

    def without(self, *names: str) -> Any:
        """A client without some of the properties."""
        left = {name: value for name, value in self.properties.items() if name not in names}
        return self.opened.enter_context(sealberg.load_catalog("test", **left))

    def plain(self) -> Any:
        """PyIceberg's own client."""
        return self.opened.enter_context(load_plain("test", **self.properties))

    def files(self) -> set[str]:
        return {str(path) for path in self.warehouse.rglob("*") if path.is_file() and path.suffix != ".crc"}

    def magics(self) -> set[bytes]:
        """The first bytes of the files of the tables, without metadata files."""
        return {Path(path).read_bytes()[:4] for path in self.files() if not path.endswith(".metadata.json")}


# -- SQL ------------------------------------------------------------------------------------------


@contextmanager
def sqlite(folder: Path) -> Iterator[Lake]:
    with _sql("sqlite", folder) as lake:
        yield lake


@contextmanager
def postgresql(folder: Path) -> Iterator[Lake]:
    with _sql("postgresql", folder) as lake:
        yield lake


@contextmanager
def _sql(kind: str, folder: Path) -> Iterator[Lake]:
    with empty_database(kind, folder) as database:
        yield Lake(kind, database.properties, folder / "warehouse", _SqlMeddling(database.uri))


@dataclass(frozen=True)
class _SqlMeddling:
    uri: str

    def point_at(self, table: str, location: str) -> None:
        self._run(update(IcebergTables).where(IcebergTables.table_name == table).values(metadata_location=location))

    def set_key_id(self, table: str, key_id: str | None) -> None:
        mine = TRUST.c.table_name == table
        self._run(delete(TRUST).where(mine) if key_id is None else update(TRUST).where(mine).values(key_id=key_id))

    def _run(self, statement: Any) -> None:
        engine = create_engine(self.uri)
        with Session(engine) as session:
            session.execute(statement)
            session.commit()
        engine.dispose()


# -- Hive, Glue -----------------------------------------------------------------------------------


@contextmanager
def hive(_: Path) -> Iterator[Lake]:
    """A namespace of the shared metastore, dropped at the end with its tables."""
    server = shared_metastore()
    lake = Lake("hive", {"type": "hive", "uri": server.uri, **MEMORY_KMS}, server.warehouse)
    catalog = lake.connect()
    lake.meddling = _ParameterMeddling(partial(set_hive_parameters, catalog))
    try:
        yield lake
    finally:
        with catalog._client as client:
            client.drop_database("db", deleteData=False, cascade=True)
        rmtree(server.warehouse)


@contextmanager
def glue(folder: Path) -> Iterator[Lake]:
    properties = {**empty_glue(), "warehouse": f"file://{folder}/warehouse", **MEMORY_KMS}
    yield Lake("glue", properties, folder / "warehouse", _ParameterMeddling(set_glue_parameters))


@dataclass(frozen=True)
class _ParameterMeddling:
    set_parameters: Callable[[str, dict[str, str | None]], None]

    def point_at(self, table: str, location: str) -> None:
        self.set_parameters(f"db.{table}", {"metadata_location": location})

    def set_key_id(self, table: str, key_id: str | None) -> None:
        self.set_parameters(f"db.{table}", {"encryption.key-id": key_id})


# -- REST -----------------------------------------------------------------------------------------


@contextmanager
def rest(folder: Path) -> Iterator[Lake]:
    yield Lake("rest", {"type": "rest", "uri": rest_server(folder), **MEMORY_KMS}, folder / "warehouse")


# -- all of them ----------------------------------------------------------------------------------

KINDS: Final[dict[str, Callable[[Path], AbstractContextManager[Lake]]]] = {
    "sqlite": sqlite,
    "postgresql": postgresql,
    "hive": hive,
    "glue": glue,
    "rest": rest,
}
VOUCHING: Final = ("sqlite", "postgresql", "hive", "glue")
SLOW: Final = ("postgresql", "hive", "glue", "rest")  # servers, which take their time


def _params(kinds: Iterable[str]) -> list[Any]:
    return [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in kinds]


@contextmanager
def _lake(kind: str, folder: Path) -> Iterator[Lake]:
    with KINDS[kind](folder) as lake, lake.opened:
        lake.connect().create_namespace("db")
        yield lake


@pytest.fixture(params=_params(KINDS))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with _lake(request.param, tmp_path) as found:
        yield found


@pytest.fixture(params=_params(VOUCHING))
def vouching(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    with _lake(request.param, tmp_path) as found:
        yield found


# -- what tests do with them ----------------------------------------------------------------------


def path_of(location: str) -> Path:
    """The local path of a location in metadata; Java writes `file:/`, PyIceberg `file:///`."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))
