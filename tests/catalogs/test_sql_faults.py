"""SQL catalogs whose database restarts, is away, is locked, or loses the answer to a COMMIT."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from sqlalchemy.exc import SQLAlchemyError

import sealberg
from kit.servers.postgres import MEMORY_KMS, Database, empty_database, postgres
from kit.servers.postgres_proxy import PostgresProxy, postgres_proxy
from sealberg.errors import CatalogError, CatalogUnavailableError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow  # servers that restart, or children that are forked under load

ENCRYPTED = {"encryption.key-id": "hr"}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
SHORT = {"sql.retry.total-timeout-ms": "600"}
HASTY = {"commit.status-check.min-wait-ms": "1", "commit.retry.min-wait-ms": "1"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with empty_database("postgresql", tmp_path) as empty:
        yield empty


@pytest.fixture
def catalog(database: Database) -> Iterator[Any]:
    with database.catalog() as opened:
        opened.create_namespace("db")
        yield opened


@pytest.fixture
def proxy() -> Iterator[PostgresProxy]:
    with postgres_proxy(postgres().socket) as made:
        yield made


def through(proxy: PostgresProxy, database: Database, **more: str) -> Any:
    """A catalog that reaches the same database through the proxy."""
    name = database.uri.partition("?")[0].rpartition("/")[2]
    uri = f"postgresql+psycopg2://postgres:geheim@127.0.0.1:{proxy.port}/{name}"
    return sealberg.load_catalog("test", **{**database.properties, "uri": uri, **more})


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def count(catalog: Any, name: str = "db.t") -> int:
    return int(catalog.load_table(name).scan().count())


def has_words_of_ours(error: BaseException, *words: str) -> None:
    """The message names what it should, and neither the statement nor the password; nor does what caused it."""
    assert all(word in str(error) for word in words), str(error)
    seen: BaseException | None = error
    while seen is not None:
        assert not isinstance(seen, SQLAlchemyError)
        assert "[SQL" not in str(seen)
        assert "geheim" not in str(seen)
        seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)


# -- restarts ---------------------------------------------------------------------------------


def test_an_idle_catalog_outlives_a_restart_of_its_server(catalog: Any) -> None:
    table = make(catalog)
    table.append(ROWS)
    postgres().restart()
    table.append(ROWS)  # the first thing after it
    postgres().restart()
    assert count(catalog) == 6
    postgres().restart()
    assert catalog.list_tables("db") == [("db", "t")]
    postgres().restart()
    make(catalog, "db.u")
    postgres().restart()
    catalog.rename_table("db.u", "db.v")
    postgres().restart()
    catalog.drop_table("db.v")
    assert len(table.metadata.snapshots) == 2


def test_the_pool_looks_before_it_gives_a_connection_unless_told_not_to(database: Database) -> None:
    with database.catalog() as opened:
        assert opened.engine.pool._pre_ping is True  # type: ignore[attr-defined]
    with database.catalog(pool_pre_ping="false") as opened:
        assert opened.engine.pool._pre_ping is False  # type: ignore[attr-defined]


def test_a_server_that_is_away_for_a_while_is_waited_for(catalog: Any) -> None:
    table = make(catalog)
    server = postgres()
    server.halt()
    later = threading.Timer(1.0, server.start)
    later.start()
    try:
        table.append(ROWS)
    finally:
        later.join()
    assert count(catalog) == 3


CALLS: dict[str, Callable[[Any], object]] = {
    "load": lambda catalog: catalog.load_table("db.t"),
    "append": lambda catalog: catalog.held.append(ROWS),
    "create": lambda catalog: make(catalog, "db.new"),
    "drop": lambda catalog: catalog.drop_table("db.t"),
    "rename": lambda catalog: catalog.rename_table("db.t", "db.u"),
    "list_tables": lambda catalog: catalog.list_tables("db"),
    "list_namespaces": lambda catalog: catalog.list_namespaces(),
    "create_namespace": lambda catalog: catalog.create_namespace("other"),
    "drop_namespace": lambda catalog: catalog.drop_namespace("db"),
    "load_namespace_properties": lambda catalog: catalog.load_namespace_properties("db"),
    "update_namespace_properties": lambda catalog: catalog.update_namespace_properties("db", updates={"a": "b"}),
    "plain create": lambda catalog: catalog.create_table("db.plain", ROWS.schema),
}


def test_when_patience_with_a_server_ends_the_error_names_it_and_nothing_is_left(
    catalog: Any, database: Database, proxy: PostgresProxy
) -> None:
    make(catalog)
    with through(proxy, database, **SHORT) as remote:
        remote.held = remote.load_table("db.t")
        before = database.files()
        name = database.uri.partition("?")[0].rpartition("/")[2]
        postgres().halt()
        try:
            for what, call in CALLS.items():
                began = time.monotonic()
                with pytest.raises(CatalogUnavailableError) as caught:
                    call(remote)
                has_words_of_ours(caught.value, f"'{name}' at 127.0.0.1:{proxy.port}", "sql.retry.total-timeout-ms")
                assert time.monotonic() - began < 20, what
            with pytest.raises(CatalogUnavailableError) as caught:
                through(proxy, database, **SHORT)
            has_words_of_ours(caught.value, "open the catalog")
        finally:
            postgres().start()
        assert database.files() == before
        remote.held.append(ROWS)


def test_the_time_of_a_commit_bounds_the_time_for_its_database(catalog: Any) -> None:
    table = make(catalog, **{"commit.retry.total-timeout-ms": "300"})
    postgres().halt()
    try:
        began = time.monotonic()
        with pytest.raises(CatalogUnavailableError, match=r"did not answer when asked to load db\.t"):
            table.append(ROWS)
        assert time.monotonic() - began < 20  # 30 s without that property
    finally:
        postgres().start()


def test_what_a_database_refuses_is_told_at_once(catalog: Any, database: Database) -> None:
    table = make(catalog)
    before = database.files()
    wrong = database.uri.replace("postgres@/test_", "postgres:geheim@/no_such_")
    began = time.monotonic()
    with pytest.raises(CatalogError, match="does not exist") as caught:
        sealberg.load_catalog("test", **{**database.properties, "uri": wrong})
    has_words_of_ours(caught.value)
    with catalog.engine.connect() as connection:
        connection.exec_driver_sql("ALTER TABLE iceberg_tables RENAME TO elsewhere")
        connection.commit()
    with pytest.raises(CatalogError, match=r"refused to load db\.t") as caught:
        table.append(ROWS)
    has_words_of_ours(caught.value)
    assert not isinstance(caught.value, CatalogUnavailableError)
    assert time.monotonic() - began < 20
    assert database.files() == before


def test_an_address_that_cannot_be_parsed_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="uri of the catalog") as caught:
        sealberg.load_catalog("test", type="sql", uri="postgres//user:geheim@host/db", warehouse="file:///nowhere")
    assert "geheim" not in str(caught.value)


# -- locks ------------------------------------------------------------------------------------


def test_a_row_that_another_session_holds_ends_the_commit_in_time(catalog: Any, database: Database) -> None:
    make(catalog)
    with database.catalog(**SHORT) as short, catalog.engine.connect() as other:
        table: Any = short.load_table("db.t")
        before = database.files()
        other.exec_driver_sql("SELECT * FROM iceberg_tables FOR UPDATE")
        with pytest.raises(CommitFailedException, match="lock timeout") as caught:
            table.append(ROWS)
        assert isinstance(caught.value, CatalogUnavailableError)
        has_words_of_ours(caught.value, "commit db.t")
        assert database.files() == before
        other.rollback()
        table.append(ROWS)


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
@pytest.mark.parametrize("given", ["?timeout=0.5", "sql.retry"])
def test_a_locked_sqlite_says_so_within_the_configured_time(tmp_path: Path, lock: str, given: str) -> None:
    file = tmp_path / "catalog.db"
    properties = {"type": "sql", "uri": f"sqlite:///{file}", "warehouse": f"file://{tmp_path}/warehouse", **MEMORY_KMS}
    properties |= SHORT if given == "sql.retry" else {"uri": properties["uri"] + given}
    with sealberg.load_catalog("test", **properties) as catalog:
        catalog.create_namespace("db")
        table = make(catalog)
        before = Database("sqlite", "", tmp_path).files()
        other = sqlite3.connect(file, isolation_level=None)
        other.execute(f"BEGIN {lock}")
        began = time.monotonic()
        with pytest.raises(CatalogUnavailableError, match="database is locked") as caught:
            table.append(ROWS)
        has_words_of_ours(caught.value, str(file))
        if lock == "EXCLUSIVE":
            with pytest.raises(CatalogUnavailableError, match="database is locked"):
                catalog.list_tables("db")
            with pytest.raises(CatalogUnavailableError, match="open the catalog"):
                sealberg.load_catalog("test", **properties)
        assert time.monotonic() - began < 20
        assert Database("sqlite", "", tmp_path).files() == before
        other.rollback()
        other.close()
        table.append(ROWS)
        assert count(catalog) == 3


# -- lost answers -----------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_a_commit_whose_answer_is_lost_is_there_once(
    catalog: Any, database: Database, proxy: PostgresProxy, when: str
) -> None:
    make(catalog, **HASTY)
    before = database.files()
    with through(proxy, database) as remote:
        table = remote.load_table("db.t")
        with proxy.breaking("COMMIT", when):
            table.append(ROWS)
        assert proxy.broken == 1
        table.append(ROWS)
    again = catalog.load_table("db.t")
    assert len(again.metadata.snapshots) == 2
    assert count(catalog) == 6
    assert len(database.files() - before) == 8  # data, manifest, list and metadata of each


def test_a_commit_that_certainly_did_not_land_leaves_no_file(
    catalog: Any, database: Database, proxy: PostgresProxy
) -> None:
    make(catalog, **HASTY, **{"commit.retry.num-retries": "1"})
    before = database.files()
    with through(proxy, database) as remote:
        table = remote.load_table("db.t")
        with proxy.breaking("COMMIT", "before", times=9), pytest.raises(CommitFailedException) as caught:
            table.append(ROWS)
        has_words_of_ours(caught.value)
    assert proxy.broken == 2
    assert database.files() == before
    assert count(catalog) == 0


def test_a_commit_of_which_nobody_knows_keeps_its_files(catalog: Any, database: Database, proxy: PostgresProxy) -> None:
    make(catalog, **HASTY)
    before = database.files()
    with through(proxy, database, **SHORT) as remote:
        table = remote.load_table("db.t")
        with (
            proxy.breaking("COMMIT", "all"),
            pytest.raises(CommitStateUnknownException, match=r"db\.t was lost") as caught,
        ):
            table.append(ROWS)
        has_words_of_ours(caught.value)
    assert len(database.files() - before) == 4
    assert count(catalog) == 3


@pytest.mark.parametrize("when", ["after", "late"])
def test_a_table_whose_creation_is_not_answered_is_found(
    catalog: Any, database: Database, proxy: PostgresProxy, when: str
) -> None:
    with through(proxy, database) as remote:
        with proxy.breaking("COMMIT", when):
            made = make(remote)
        assert proxy.broken == 1
        with (
            proxy.breaking("COMMIT", when),
            remote.create_table_transaction("db.rows", ROWS.schema, properties=ENCRYPTED) as staged,
        ):
            staged.append(ROWS)
        made.append(ROWS)
    assert count(catalog) == count(catalog, "db.rows") == 3


def test_a_table_whose_creation_never_arrived_leaves_no_file(
    catalog: Any, database: Database, proxy: PostgresProxy
) -> None:
    with through(proxy, database) as remote:
        with proxy.breaking("COMMIT", "before"), pytest.raises(CommitFailedException):
            make(remote)
        assert database.files() == set()
        make(remote)


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_a_rename_an_exchange_and_a_drop_whose_answers_are_lost_are_found_out(
    catalog: Any, database: Database, proxy: PostgresProxy, when: str
) -> None:
    make(catalog).append(ROWS)
    make(catalog, "db.w")
    with through(proxy, database) as remote:
        if when == "before":
            with (
                proxy.breaking("COMMIT", when),
                pytest.raises(CatalogUnavailableError, match="was not applied; try again"),
            ):
                remote.rename_table("db.t", "db.u")
            with (
                proxy.breaking("COMMIT", when),
                pytest.raises(CatalogUnavailableError, match="was not applied; try again"),
            ):
                remote.swap_tables("db.t", "db.w")
            with (
                proxy.breaking("COMMIT", when),
                pytest.raises(CatalogUnavailableError, match="was not applied; try again"),
            ):
                remote.drop_table("db.t")
            assert count(catalog) == 3
            return
        with proxy.breaking("COMMIT", when):
            assert remote.rename_table("db.t", "db.u").scan().count() == 3
        with proxy.breaking("COMMIT", when):
            remote.swap_tables("db.u", "db.w")
        with proxy.breaking("COMMIT", when):
            remote.drop_table("db.u")
    assert proxy.broken == 1
    assert catalog.list_tables("db") == [("db", "w")]
    assert catalog.load_table("db.w").scan().count() == 3


def test_a_server_that_breaks_in_a_statement_is_asked_again(
    catalog: Any, database: Database, proxy: PostgresProxy
) -> None:
    make(catalog, **{"commit.retry.num-retries": "0"})
    with through(proxy, database) as remote:
        table = remote.load_table("db.t")
        for statement in ("UPDATE iceberg_tables", "INSERT INTO sealberg_trust", "SELECT iceberg_tables"):
            with proxy.breaking(statement, "after"):
                table.append(ROWS)
            assert proxy.broken == 1, statement
    assert count(catalog) == 9
