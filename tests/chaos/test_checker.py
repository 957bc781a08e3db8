"""The checker can fail: a round that kept every promise passes, and each way to break one is found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from chaos import checker, director, facts, history
from chaos.plan import KINDS, Operation, Plan, seed_rows
from chaos.round import NAME, SCHEMA, Round
from chaos.verdict import Verdict
from kit.tables.catalogs import path_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def make(folder: Path, seconds: float = 4.0) -> Round:
    place = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    kinds = {"append": 4, "delete": 2, "tag": 1, "read": 1}
    settings = Round("checker", 1, str(folder), place, workers=1, seconds=seconds, kinds=kinds, hold_s=0.0)
    settings.make()
    return settings


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Round:
    """A round of one worker and no fault."""
    settings = make(tmp_path_factory.mktemp("chaos"))
    director.play(settings)
    return settings


@pytest.fixture
def log(played: Round) -> Iterator[Callable[[Callable[[dict[str, Any]], Any]], None]]:
    """Changes what the worker said, for one test."""
    path = played.log(0)
    said = path.read_text()

    def change(edit: Callable[[dict[str, Any]], Any]) -> None:
        lines = [json.loads(line) for line in said.splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines if edit(line) is not False))

    yield change
    path.write_text(said)


def found(settings: Round) -> Counter[str]:
    return checker.check(settings).kinds


def first(settings: Round, kind: str) -> int:
    """The first operation of this kind that was acknowledged."""
    lines = [json.loads(line) for line in settings.log(0).read_text().splitlines()]
    done = {line["i"] for line in lines if line["e"] == "acknowledged"}
    begun: dict[int, str] = {line["i"]: line["plan"]["kind"] for line in lines if line["e"] == "attempt"}
    return next(index for index, what in begun.items() if what == kind and index in done)


def test_a_round_without_faults_passes_and_is_counted(played: Round) -> None:
    verdict = checker.check(played)
    assert not verdict.violations
    figures = verdict.figures
    assert figures["acknowledged"] == figures["operations"] > 5
    assert figures["orphans"] == figures["failed"] == figures["unknown"] == 0
    assert figures["reads checked"] > 0


@pytest.mark.parametrize("kind", ["append", "delete", "tag"])
def test_what_was_told_to_have_failed_and_is_there_is_found(played: Round, log: Any, kind: str) -> None:
    index = first(played, kind)
    log(
        lambda line: (
            line.update(e="failed", error="sealberg.X") if (line["i"], line["e"]) == (index, "acknowledged") else None
        )
    )
    assert found(played)["failed and visible"] == 1


def test_what_was_acknowledged_and_is_not_there_is_found(played: Round, log: Any) -> None:
    """The log claims one more append than the table has."""
    plan = iter(Plan(played.seed, 0, played.kinds, played.hold_s))
    began = {json.loads(line)["i"] for line in played.log(0).read_text().splitlines()}
    extra = next(each for each in plan if each.index > max(began) and each.kind == "append")
    at = [json.loads(line) for line in played.log(0).read_text().splitlines()][-1]
    log(lambda _: None)
    with played.log(0).open("a") as file:
        for line in ({"e": "attempt", "plan": extra.to_json()}, {"e": "acknowledged", "at": at["at"]}):
            file.write(json.dumps({"i": extra.index, "t": 0.0, "ms": 0, **line}) + "\n")
    assert found(played)["lost"] == 1


def test_an_error_that_is_not_ours_is_found(played: Round, log: Any) -> None:
    index = first(played, "read")
    change = {"e": "failed", "error": "sqlalchemy.exc.OperationalError", "message": "x"}
    log(lambda line: line.update(change) if (line["i"], line["e"]) == (index, "acknowledged") else None)
    assert found(played)["raw error"] == 1


def test_a_false_alarm_is_found(played: Round, log: Any) -> None:
    index = first(played, "read")
    change = {"e": "failed", "error": "sealberg.errors.TrustError", "message": "x"}
    log(lambda line: line.update(change) if (line["i"], line["e"]) == (index, "acknowledged") else None)
    assert found(played)["false alarm"] == 1


def test_a_reader_that_saw_other_rows_is_found(played: Round, log: Any) -> None:
    log(lambda line: line.update(digest="0") if line["e"] == "seen" else None)
    assert found(played)["wrong"] > 0


def test_a_file_of_a_live_snapshot_that_is_gone_is_found(played: Round) -> None:
    with played.connect() as catalog:
        table = catalog.load_table(NAME)
        lost = path_of(next(iter(table.scan().plan_files())).file.file_path)
    away = lost.rename(lost.with_suffix(".away"))
    try:
        kinds = found(played)
    finally:
        away.rename(lost)
    assert kinds["lost"] == 1
    assert kinds["unreadable"] > 0
    assert kinds["orphans"] == 1  # the file by its other name


def test_a_file_that_nobody_made_is_found(played: Round) -> None:
    with played.connect() as catalog:
        stray = path_of(catalog.load_table(NAME).location()) / "data" / "stray.parquet"
    stray.write_bytes(b"PARE")
    try:
        assert found(played) == {"orphans": 1}
    finally:
        stray.unlink()


def test_an_orphan_of_a_killed_writer_is_explained(played: Round, log: Any) -> None:
    """The same file, known to be of an operation that was killed."""
    with played.connect() as catalog:
        stray = path_of(catalog.load_table(NAME).location()) / "data" / "stray.parquet"
    stray.write_bytes(b"PARE")
    index = first(played, "read")
    log(lambda line: (line["i"], line["e"]) != (index, "acknowledged"))
    with played.log(0).open("a") as file:
        file.write(json.dumps({"i": index, "t": 0.0, "ms": 0, "e": "created", "file": str(stray)}) + "\n")
    try:
        verdict = checker.check(played)
    finally:
        stray.unlink()
    assert not verdict.violations
    assert verdict.figures["orphans of"] == {"killed": 1}


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (lambda table: table.append(pa.table({"k": [1], "w": [0], "p": [0], "v": [9]}, SCHEMA)), "doubled"),
        (lambda table: table.delete("k in (2, 3)"), "lost"),
        (lambda table: table.overwrite(pa.table({"k": [4], "w": [0], "p": [0], "v": [9]}, SCHEMA), "k == 4"), "wrong"),
        (lambda table: table.append(pa.table({"k": [77_777], "w": [0], "p": [0], "v": [9]}, SCHEMA)), "resurrected"),
    ],
    ids=["doubled", "lost", "wrong", "resurrected"],
)
def test_rows_that_are_not_the_model_s_are_found(tmp_path: Path, write: Any, kind: str) -> None:
    """Somebody writes in the name of the seed, or in nobody's."""
    settings = make(tmp_path)
    with settings.connect() as catalog:
        write(catalog.load_table(NAME))
    kinds = found(settings)
    assert kinds[kind] == 1
    assert kinds["moved"] == 1  # a snapshot of nobody


def test_times_numbers_and_keys_that_are_wrong_are_found(played: Round) -> None:
    past = history.read(played)
    last = past.versions[-1]
    wrong = (
        ("times", replace(last, last_updated_ms=1)),
        ("times", replace(last, log_ms=(2, 1))),
        ("numbers", replace(last, last_sequence_number=0)),
        ("keys", replace(last, keys={})),
        ("keys", replace(last, keys={**last.keys, "x": ("y", None)})),
        ("keys", replace(last, keys={**last.keys, "x": ("keyA", 1)})),
        ("refs", replace(last, refs={"main": 1})),
    )
    for kind, version in wrong:
        verdict = Verdict()
        facts.check(replace(past, versions=[*past.versions[:-1], version]), verdict)
        assert verdict.kinds[kind] > 0, version


def test_the_same_seed_gives_the_same_operations() -> None:
    def begin(seed: int) -> list[Any]:
        return [operation for operation, _ in zip(Plan(seed, 1, KINDS), range(200), strict=False)]

    assert begin(3) == begin(3)
    assert begin(3) != begin(4)
    assert {each.kind for each in begin(3)} == set(KINDS)


def test_workers_never_own_the_same_row_and_often_the_same_file() -> None:
    rows = seed_rows(3)
    assert len({row.k for row in rows}) == len(rows)
    assert {row.w for row in rows if row.p == 0} == {0, 1, 2}
    for worker in range(3):
        for operation, _ in zip(Plan(5, worker, KINDS), range(300), strict=False):
            assert {row.w for row in operation.rows} <= {worker}
            assert Operation.from_json(json.loads(json.dumps(operation.to_json()))) == operation
