"""What is peculiar to Glue: commits for a version, repeated and lost answers, a rename that is two requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    TableAlreadyExistsError,
    ValidationException,
)

from kit.servers.glue import client, parameters, set_parameters
from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.errors import UnsupportedError
from sealberg.metadata.table_metadata import metadata_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kit.tables.catalogs import Lake

pytestmark = pytest.mark.slow  # a server is started

ENCRYPTED = {"encryption.key-id": "hr"}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
LOST = ConnectionClosedError(endpoint_url="http://glue")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with catalogs._lake("glue", tmp_path) as found:
        yield found


@pytest.fixture
def catalog(lake: Lake) -> Any:
    return lake.connect()


def make(catalog: Any, name: str = "db.t", **properties: str) -> Any:
    return catalog.create_table(name, ROWS.schema, properties={**ENCRYPTED, **properties})


def rows_of(table: Any) -> int:
    return int(table.scan().to_arrow().num_rows)


def instead(monkeypatch: pytest.MonkeyPatch, catalog: Any, method: str, act: Callable[[Any], Any]) -> None:
    """The next request of this kind: `act` has the real one, without its arguments."""
    real = getattr(catalog.glue, method)

    def once(**arguments: Any) -> Any:
        monkeypatch.setattr(catalog.glue, method, real)
        return act(lambda: real(**arguments))

    monkeypatch.setattr(catalog.glue, method, once)


def test_key_id_key_length_and_hash_are_parameters_under_the_names_of_java(catalog: Any) -> None:
    table = make(catalog, **{"encryption.data-key-length": "24"})
    for _ in range(2):
        known = parameters("db.t")
        assert (known["encryption.key-id"], known["encryption.data-key-length"]) == ("hr", "24")
        assert known["metadata_location"] == table.metadata_location
        assert known["metadata_hash"] == metadata_hash(path_of(table.metadata_location).read_bytes())
        table.append(ROWS)
    columns = client().get_table(DatabaseName="db", Name="t")["Table"]["StorageDescriptor"]["Columns"]
    assert [(column["Name"], column["Type"]) for column in columns] == [("id", "bigint")]


def test_parameters_of_others_stay_and_properties_that_are_gone_go(catalog: Any) -> None:
    table = make(catalog, mine="1", old="1")
    set_parameters("db.t", {"theirs": "1"})
    with table.transaction() as transaction:
        transaction.remove_properties("old")
        transaction.set_properties(mine="2")
    known = parameters("db.t")
    assert (known["theirs"], known["mine"]) == ("1", "2")
    assert "old" not in known


# -- versions ---------------------------------------------------------------------------------


def test_a_commit_for_an_older_version_is_refused_and_made_again(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog)
    other = lake.connect().load_table("db.t")
    instead(monkeypatch, catalog, "update_table", lambda update: (other.append(ROWS), update()))
    table.append(ROWS)
    again = catalog.load_table("db.t")
    assert len(again.metadata.snapshots) == 2
    assert rows_of(again) == 6


def test_a_request_that_the_sdk_repeats_meets_its_own_commit(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead(monkeypatch, catalog, "create_table", lambda create: (create(), create()))
    table = make(catalog)
    before = lake.files()
    instead(monkeypatch, catalog, "update_table", lambda update: (update(), update()))
    table.append(ROWS)
    assert len(lake.files() - before) == 4
    assert len(catalog.load_table("db.t").metadata.snapshots) == 1
    with pytest.raises(TableAlreadyExistsError):
        make(catalog)


# -- lost answers, refusals -------------------------------------------------------------------


def lost(request: Callable[[], Any] | None = None) -> Any:
    if request is not None:
        request()
    raise LOST


def test_a_commit_whose_answer_is_lost_is_found(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, catalog, "create_table", lost)
    table = make(catalog)
    instead(monkeypatch, catalog, "update_table", lost)
    table.append(ROWS)
    table.append(ROWS)
    assert rows_of(catalog.load_table("db.t")) == 6


def test_where_nobody_knows_no_file_is_deleted(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(catalog)
    before = lake.files()
    instead(monkeypatch, catalog, "update_table", lambda _: lost())
    with pytest.raises(CommitStateUnknownException, match=r"db\.t was lost"):
        table.append(ROWS)
    assert len(lake.files() - before) == 4
    assert rows_of(catalog.load_table("db.t")) == 0


def test_what_glue_refuses_leaves_no_file(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        answer = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(answer, "UpdateTable")  # type: ignore[arg-type]

    table = make(catalog)
    before = lake.files()
    instead(monkeypatch, catalog, "update_table", refuse)
    with pytest.raises(ValidationException, match="AccessDenied"):
        table.append(ROWS)
    instead(monkeypatch, catalog, "create_table", refuse)
    with pytest.raises(ValidationException, match="AccessDenied"):
        make(catalog, "db.u")
    assert lake.files() == before


# -- rename, S3 Tables ------------------------------------------------------------------------


def test_a_rename_does_not_undo_a_commit_that_came_between(
    catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(catalog).append(ROWS)
    other = lake.connect().load_table("db.t")
    instead(monkeypatch, catalog, "create_table", lambda create: (create(), other.append(ROWS)))
    with pytest.raises(CommitFailedException, match="updated by another process"):
        catalog.rename_table("db.t", "db.u")
    assert not catalog.table_exists("db.u")
    assert rows_of(catalog.rename_table("db.t", "db.u")) == 6


def test_s3_tables_make_no_encrypted_tables(catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    get = catalog.glue.get_database

    def federated(**arguments: Any) -> Any:  # moto forgets this part of a database
        return {"Database": {**get(**arguments)["Database"], "FederatedDatabase": {"ConnectionType": "aws:s3tables"}}}

    monkeypatch.setattr(catalog.glue, "get_database", federated)
    with pytest.raises(UnsupportedError, match=r"db\.t: db is an S3 Tables database"):
        make(catalog)
    assert not lake.files()
