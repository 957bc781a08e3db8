"""What a hostile REST server answers to a commit: not obeyed, and not believed where it says something else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from kit.servers import hostile_server
from kit.servers.hostile_server import HOSTILE, ROWS, TOKEN, Server, client, evil, rows
from sealberg.errors import SealbergError, TrustError

if TYPE_CHECKING:
    from kit.servers.hostile_server import Answer

pytestmark = pytest.mark.slow

decoy, tables, kind, server = (  # the fixtures
    hostile_server.decoy,
    hostile_server.tables,
    hostile_server.kind,
    hostile_server.server,
)


@pytest.mark.parametrize("kind", ["encrypted", "v3"], indirect=True)
def test_what_a_server_answers_to_a_commit_is_not_obeyed(server: Server, decoy: tuple[str, Any]) -> None:
    told = {name: value for name, value in evil(decoy[0]).items() if not name.startswith("encryption.")}

    def alter(answer: dict[str, Any]) -> dict[str, Any]:
        answer["metadata"]["properties"].update(told)
        return {**answer, "config": told, "storage-credentials": [{"prefix": "file", "config": told}]}

    table = client(server).load_table("db.t")
    server.alter = alter
    table.append(ROWS)
    assert rows(table) == ROWS.to_pylist() * 2
    assert {name for name in told if table.io.properties.get(name) == told[name]} == set()


def without_keys(answer: dict[str, Any]) -> Any:
    answer["metadata"]["encryption-keys"] = []
    return answer


def another_key_id(answer: dict[str, Any]) -> Any:
    answer["metadata"]["properties"]["encryption.key-id"] = "theirs"
    return answer


def without_key_id(answer: dict[str, Any]) -> Any:
    del answer["metadata"]["properties"]["encryption.key-id"]
    return answer


def another_table(answer: dict[str, Any]) -> Any:
    answer["metadata"]["table-uuid"] = "00000000-0000-0000-0000-000000000000"
    return answer


def version_2(answer: dict[str, Any]) -> Any:
    answer["metadata"]["format-version"] = 2
    return answer


def without_the_snapshot(answer: dict[str, Any]) -> Any:
    answer["metadata"]["snapshots"].pop()
    return answer


@pytest.mark.parametrize("kind", ["encrypted"], indirect=True)
@pytest.mark.parametrize(
    "alter", [without_keys, another_key_id, without_key_id, another_table, version_2, without_the_snapshot]
)
def test_an_answer_that_does_not_say_what_was_committed_is_refused(server: Server, alter: Any) -> None:
    table = client(server).load_table("db.t")
    before = table.metadata
    server.alter = alter
    with pytest.raises(Exception) as caught:
        table.append(ROWS)
    assert isinstance(caught.value, SealbergError | CommitStateUnknownException)
    assert table.metadata == before
    assert rows(table) == ROWS.to_pylist()


@pytest.mark.parametrize("kind", ["encrypted"], indirect=True)
def test_a_commit_is_not_sent_to_another_server(server: Server, decoy: tuple[str, Any]) -> None:
    table = client(server).load_table("db.t")
    posts: list[str] = []

    def redirect(path: str) -> Answer | None:
        posts.append(path)
        return (307, {"Location": f"{decoy[0]}/v1/x"}, b"") if len(posts) > 1 else None  # the first loads the table

    server.answer = redirect
    with pytest.raises(TrustError, match="redirects its clients to another server"):
        table.append(ROWS)


@pytest.mark.parametrize("kind", ["encrypted"], indirect=True)
@pytest.mark.parametrize("status", [400, 409, 500])
def test_the_text_of_a_refused_commit_can_be_shown(server: Server, status: int) -> None:
    server.table["metadata"]["properties"]["commit.retry.num-retries"] = "1"
    table = client(server).load_table("db.t")
    body = json.dumps({"error": {"message": HOSTILE, "type": HOSTILE, "code": status}}).encode()
    server.refuse = body, status
    with pytest.raises(Exception) as caught:
        table.append(ROWS)
    said = str(caught.value)
    assert TOKEN not in said
    assert not any(ord(each) < 32 or each == "\u202e" for each in said)
