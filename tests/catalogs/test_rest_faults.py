"""REST servers that lose keys, answers, or the race, and clients that lose nothing by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
)

from kit.servers import rest_faults
from kit.servers.rest_faults import (
    ENCRYPTED,
    ROWS,
    drop_key_ids,
    drop_keys,
    editing,
    failing_after,
    is_commit,
    make,
    rows_of,
    update,
)
from sealberg.errors import KeyringError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kit.servers.fault_proxy import FaultProxy, Request
    from kit.tables.catalogs import Lake

pytestmark = pytest.mark.slow  # a server is started

lake, proxy, catalog = rest_faults.lake, rest_faults.proxy, rest_faults.catalog  # the fixtures


# -- servers that know nothing of keys --------------------------------------------------------


def test_a_server_that_drops_keys_is_refused_before_there_is_a_row(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    words = rf"the REST server {proxy.address} does not keep what table db.t needs: the encryption key"
    with proxy.answering(editing(drop_keys)):
        with pytest.raises(UnsupportedError, match=words):
            make(catalog)
        transaction = catalog.create_table_transaction("db.t", ROWS.schema, properties=ENCRYPTED)
        transaction.append(ROWS)
        with pytest.raises(UnsupportedError, match=words):
            transaction.commit_transaction()
    assert not lake.connect().table_exists("db.t")
    assert {path for path in lake.files() if not path.endswith(".metadata.json")} == set()


def test_a_server_that_echoes_keys_and_does_not_keep_them_is_refused(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    def change(request: Request, status: int, body: bytes) -> tuple[int, bytes] | None:
        return editing(drop_keys)(request, status, body) if request.method == "GET" else (status, body)

    with proxy.answering(change), pytest.raises(UnsupportedError, match="the encryption key"):
        make(catalog)
    assert not lake.connect().table_exists("db.t")


@pytest.mark.parametrize("what", ["an older answer", "no answer", "an error"])
def test_a_second_look_that_proves_nothing_does_not_undo_a_commit(
    catalog: Any, lake: Lake, proxy: FaultProxy, what: str
) -> None:
    make(lake.connect())
    table = catalog.load_table("db.t")  # by a client that has not seen this server keep a key
    older: list[bytes] = []
    committed: list[Request] = []

    def change(request: Request, status: int, body: bytes) -> tuple[int, bytes] | None:
        if is_commit(request):
            committed.append(request)
        elif request.method == "GET" and committed:
            return {"an older answer": (200, older[-1]), "no answer": None, "an error": (500, b"")}[what]
        elif request.method == "GET":
            older.append(body)
        return status, body

    with proxy.answering(change):
        table.append(ROWS)
    assert len(committed) == 1
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]


@pytest.mark.parametrize("lost", [drop_keys, drop_key_ids])
@pytest.mark.parametrize("rows_before", [0, 3])
def test_a_commit_whose_keys_are_dropped_is_taken_back(
    catalog: Any, lake: Lake, proxy: FaultProxy, lost: Callable[[dict[str, Any]], None], rows_before: int
) -> None:
    table = make(catalog)
    if rows_before:
        table.append(ROWS)
    before = {path for path in lake.files() if not path.endswith(".metadata.json")}

    def change(request: Request, status: int, body: bytes) -> tuple[int, bytes] | None:
        return editing(lost)(request, status, body) if is_commit(request) else (status, body)

    words = "the key-id of snapshot" if lost is drop_key_ids else "the encryption key"
    with proxy.answering(change), pytest.raises(UnsupportedError, match=words):
        table.append(ROWS)
    assert {path for path in lake.files() if not path.endswith(".metadata.json")} == before
    again = lake.connect().load_table("db.t")
    assert len(rows_of(again)) == rows_before
    assert len(again.metadata.snapshots) == (1 if rows_before else 0)
    again.append(ROWS)
    assert len(rows_of(lake.connect().load_table("db.t"))) == rows_before + 3


def test_what_cannot_be_taken_back_keeps_its_files(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    table = make(catalog)
    commits = 0

    def change(request: Request, status: int, body: bytes) -> tuple[int, bytes] | None:
        nonlocal commits
        if not is_commit(request):
            return status, body
        commits += 1
        return editing(drop_key_ids)(request, status, body) if commits == 1 else None

    with proxy.answering(change), pytest.raises(UnsupportedError, match="key-id"):
        table.append(ROWS)
    assert any(path.endswith(".parquet") for path in lake.files())


def test_a_server_that_makes_version_2_is_refused_before_anything_is_made(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    def make_v2(metadata: dict[str, Any]) -> None:
        metadata["format-version"] = 2

    with proxy.answering(editing(make_v2)):
        with pytest.raises(UnsupportedError, match=r"format version 3 \(it made version 2\)"):
            make(catalog)
        with pytest.raises(UnsupportedError, match=r"format version 3"):
            catalog.create_table_transaction("db.t", ROWS.schema, properties=ENCRYPTED)
    assert not lake.connect().table_exists("db.t")
    assert not lake.files()


def test_a_server_that_loses_the_key_id_property_is_refused(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    def strip(metadata: dict[str, Any]) -> None:
        metadata["properties"].pop("encryption.key-id", None)

    with proxy.answering(editing(strip)), pytest.raises(UnsupportedError, match=r"encryption.key-id hr"):
        make(catalog)
    assert not lake.files()


# -- answers that do not come -----------------------------------------------------------------


AFTER = [500, 502, 503, 504, 409, 200, None]


@pytest.mark.parametrize("status", AFTER)
def test_a_commit_that_landed_without_saying_so_is_found(
    catalog: Any, lake: Lake, proxy: FaultProxy, status: int | None
) -> None:
    table = make(catalog)
    with proxy.answering(failing_after(status)):
        table.append(ROWS)
    with proxy.answering(failing_after(status)):
        table.append(ROWS)
    again = lake.connect().load_table("db.t")
    assert len(rows_of(again)) == 6
    assert len(again.metadata.snapshots) == 2
    assert sum(path.endswith(".parquet") for path in lake.files()) == 2


@pytest.mark.parametrize("status", [504, None])
def test_a_table_that_was_made_without_saying_so_is_found(
    catalog: Any, lake: Lake, proxy: FaultProxy, status: int | None
) -> None:
    with proxy.answering(failing_after(status)):
        make(catalog).append(ROWS)
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]


@pytest.mark.parametrize("status", [500, None])
def test_a_change_without_a_snapshot_that_landed_without_saying_so_is_found(
    catalog: Any, lake: Lake, proxy: FaultProxy, status: int | None
) -> None:
    table = make(catalog)
    with proxy.answering(failing_after(status)), table.transaction() as transaction:
        transaction.set_properties(owner="me")
    with proxy.answering(failing_after(status)), table.update_schema() as schema:
        schema.add_column("more", table.schema().find_type("id"))
    assert lake.connect().load_table("db.t").properties["owner"] == "me"
    assert table.schema().column_names == ["id", "more"]


@pytest.mark.parametrize("fault", [500, 503, "drop"])
def test_where_nobody_knows_nothing_is_deleted(catalog: Any, lake: Lake, proxy: FaultProxy, fault: int | str) -> None:
    table = make(catalog)
    table.append(ROWS)
    before = lake.files()
    words = rf"the REST server {proxy.address} did not say whether it committed db.t"
    with (
        proxy.before(lambda request: fault if is_commit(request) else None),
        pytest.raises(CommitStateUnknownException, match=words),
    ):
        table.append(ROWS)
    new = {path.rpartition(".")[2] for path in lake.files() - before}
    assert new == {"parquet", "avro"}
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]


def test_a_table_of_which_nobody_knows_whether_it_was_made_keeps_its_files(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    transaction = catalog.create_table_transaction("db.t", ROWS.schema, properties=ENCRYPTED)
    transaction.append(ROWS)
    before = lake.files()
    with (
        proxy.before(lambda request: 504 if is_commit(request) else None),
        pytest.raises(CommitStateUnknownException),
    ):
        transaction.commit_transaction()
    assert lake.files() == before
    assert not lake.connect().table_exists("db.t")


@pytest.mark.parametrize(
    ("status", "error"), [(403, ForbiddenError), (404, NoSuchTableError), (409, CommitFailedException)]
)
def test_a_clear_no_leaves_no_file(
    catalog: Any, lake: Lake, proxy: FaultProxy, status: int, error: type[Exception]
) -> None:
    table = make(catalog, **{"commit.retry.num-retries": "1"})
    before = lake.files()
    with proxy.before(lambda request: status if is_commit(request) else None), pytest.raises(error):
        table.append(ROWS)
    assert lake.files() == before


def test_a_conflict_is_tried_again(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    table = make(catalog)
    left = [409, 409]
    with proxy.before(lambda request: left.pop() if is_commit(request) and left else None):
        table.append(ROWS)
    assert not left
    assert rows_of(lake.connect().load_table("db.t")) == [1, 2, 3]
    assert sum(path.endswith(".parquet") for path in lake.files()) == 1
    assert sum("/snap-" in path for path in lake.files()) == 1


# -- others, between our look and our commit --------------------------------------------------


def once(act: Callable[[], object]) -> Callable[[Request], None]:
    """Somebody else is faster, the first time."""
    todo = [act]

    def look(request: Request) -> None:
        if is_commit(request) and todo:
            todo.pop()()

    return look


def test_a_commit_on_another_branch_in_between_is_a_conflict_that_is_tried_again(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    table = make(catalog)
    table.append(ROWS)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "side").commit()
    other = lake.connect().load_table("db.t")
    with proxy.before(once(lambda: other.append(ROWS, branch="side"))):
        table.append(ROWS)
    again = lake.connect().load_table("db.t")
    assert len(rows_of(again)) == 6
    assert again.scan(snapshot_id=again.refs()["side"].snapshot_id).to_arrow().num_rows == 6
    assert [snapshot.sequence_number for snapshot in again.metadata.snapshots] == [1, 2, 3]
    ids = again.scan(selected_fields=("_row_id",)).to_arrow()["_row_id"].to_pylist()
    assert len(set(ids)) == 6


def test_a_kek_that_somebody_removed_in_between_is_put_back(catalog: Any, lake: Lake, proxy: FaultProxy) -> None:
    table = make(catalog)
    (kek,) = table.metadata.encryption_keys
    remove = {"action": "remove-encryption-key", "key-id": kek.key_id}
    with proxy.before(once(lambda: update(lake, remove))):
        table.append(ROWS)
    again = lake.connect().load_table("db.t")
    assert rows_of(again) == [1, 2, 3]
    assert again.metadata.encryption_keys.get(kek.key_id) == kek


def test_a_kek_that_cannot_be_put_back_is_an_error_and_no_file_is_deleted(
    catalog: Any, lake: Lake, proxy: FaultProxy
) -> None:
    table = make(catalog)
    (kek,) = table.metadata.encryption_keys
    remove = {"action": "remove-encryption-key", "key-id": kek.key_id}
    faster = once(lambda: update(lake, remove))
    commits: list[Request] = []

    def look(request: Request) -> int | None:
        if is_commit(request):
            commits.append(request)
        faster(request)
        return 409 if len(commits) > 1 and is_commit(request) else None

    with proxy.before(look), pytest.raises(KeyringError, match="could not be added again"):
        table.append(ROWS)
    assert any(path.endswith(".parquet") for path in lake.files())
