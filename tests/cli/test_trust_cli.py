"""`sealberg trust`: shows what changed, asks, accepts, and never takes other keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import IcebergTables
from sqlalchemy import update
from sqlalchemy.orm import Session

import sealberg
from kit import catalogs
from kit.catalogs import path_of
from kit.glue import parameters, set_parameters
from kit.postgres import MEMORY_KMS
from sealberg.cli.main import main
from sealberg.errors import TrustError
from sealberg.table.catalogs.sql import SealedSql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.catalogs import Lake

vouching = catalogs.vouching  # a fixture

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SealedSql]:
    """The catalog `prod` of the configuration, with the encrypted table db.t."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path / "local"))
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **MEMORY_KMS}
    lines = [f"    {name}: {value}" for name, value in settings.items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  prod:", *lines]))
    with sealberg.load_catalog("prod") as opened:
        assert isinstance(opened, SealedSql)
        opened.create_namespace("db")
        opened.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"}).append(ROWS)
        yield opened


def run(capsys: pytest.CaptureFixture[str], *arguments: str, catalog: str = "prod") -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["trust", *arguments, "--catalog", catalog])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def changed(catalog: SealedSql, **properties: str) -> str:
    """Another tool appends, sets properties, and moves the pointer past the catalog's trust."""
    before = catalog.trusted("db.t")
    table: Any = catalog.load_table("db.t")
    table.append(ROWS)
    raw = json.loads(table.metadata.to_json())
    raw["properties"].update(properties)
    place = Path(table.metadata_location.removeprefix("file://")).with_name(
        "00009-00000000-0000-0000-0000-000000000001.metadata.json"
    )
    place.write_text(json.dumps(raw))
    with Session(catalog.engine) as session:
        session.execute(update(IcebergTables).values(metadata_location=f"file://{place}"))
        catalog._write_trust(session, ("db", "t"), before)
        session.commit()
    with pytest.raises(TrustError):
        catalog.load_table("db.t")
    return str(place)


def test_a_change_is_shown_and_accepted_with_yes(catalog: SealedSql, capsys: pytest.CaptureFixture[str]) -> None:
    place = changed(catalog, owner="them")
    code, out, err = run(capsys, "db.t", "-y")
    assert (code, err) == (0, "")
    assert "metadata     trusted  file://" in out
    assert f"found    file://{place}" in out
    assert "hash         trusted" in out
    assert "key id       hr\n" in out
    assert "key length   the default\n" in out
    assert "+ snapshot" in out
    assert "append, 3 rows" in out
    assert "~ current snapshot" in out
    assert "~ owner: None -> them" in out
    assert "the catalog vouches for what was found" in out
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6


def test_json_says_the_same(catalog: SealedSql, capsys: pytest.CaptureFixture[str]) -> None:
    place = changed(catalog, owner="them")
    code, out, _ = run(capsys, "db.t", "-y", "--json")
    told = json.loads(out)
    assert (code, told["accepted"], told["table"]) == (0, True, "db.t")
    assert told["found"]["metadata_location"] == f"file://{place}"
    assert told["trusted"]["key_id"] == told["found"]["key_id"] == "hr"
    assert told["changes"]["properties"] == {"owner": [None, "them"]}
    assert len(told["changes"]["snapshots_added"]) == 1
    assert told["changes"]["snapshots_removed"] == []
    assert told["changes"]["same_table"] is True


def test_nothing_is_accepted_where_nobody_can_be_asked(
    catalog: SealedSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(catalog)
    code, out, err = run(capsys, "db.t")
    assert code == 1
    assert "+ snapshot" in out
    assert "expected --yes" in err
    with pytest.raises(TrustError):
        catalog.load_table("db.t")


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 130)])
def test_the_answer_decides(
    catalog: SealedSql,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,
    code: int,
) -> None:
    changed(catalog)
    import click

    def confirm(question: str, *, abort: bool, err: bool) -> bool:
        assert question == "Vouch for what was found?"
        if not answer and abort:
            raise click.Abort
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", confirm)
    assert run(capsys, "db.t")[0] == code
    if answer:
        assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6
    else:
        with pytest.raises(TrustError):
            catalog.load_table("db.t")


def test_another_key_id_is_refused_even_with_yes(catalog: SealedSql, capsys: pytest.CaptureFixture[str]) -> None:
    changed(catalog, **{"encryption.key-id": "theirs"})
    code, out, err = run(capsys, "db.t", "-y")
    assert code == 1
    assert "key id       trusted  hr\n" in out
    assert "found    theirs\n" in out
    assert "error: the key id of db.t is hr" in err
    assert "cannot become theirs" in err
    code, out, _ = run(capsys, "db.t", "-y", "--json")
    assert (code, json.loads(out)["error"]["type"]) == (1, "TrustError")
    assert catalog.trusted("db.t").key_id == "hr"  # type: ignore[union-attr]


def test_nothing_to_accept_is_no_error(catalog: SealedSql, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "db.t")
    assert (code, err) == (0, "")
    assert "nothing to accept" in out


def test_a_rolled_back_table_shows_what_would_be_lost(catalog: SealedSql, capsys: pytest.CaptureFixture[str]) -> None:
    table: Any = catalog.load_table("db.t")
    older = table.metadata_location
    table.append(ROWS)
    with Session(catalog.engine) as session:
        session.execute(update(IcebergTables).values(metadata_location=older))
        session.commit()
    code, out, _ = run(capsys, "db.t", "-y")
    assert code == 0
    assert "- snapshot" in out
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 3


def test_without_the_old_metadata_it_says_that_it_cannot_compare(
    catalog: SealedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = catalog.trusted("db.t")
    assert trusted is not None
    changed(catalog)
    Path(trusted.metadata_location.removeprefix("file://")).unlink()
    code, out, _ = run(capsys, "db.t", "-y")
    assert code == 0
    assert "cannot be told" in out


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("db.nobody", "no table db.nobody in the catalog prod"),
        ("nobody", "expected NAMESPACE.TABLE, found nobody"),
        ("db.plain", "is not encrypted"),
        ("db.old", "expected table metadata of format version 3, found 2"),
    ],
)
def test_what_cannot_be_vouched_for_is_one_line(
    catalog: SealedSql, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    catalog.create_table("db.old", ROWS.schema)
    code, out, err = run(capsys, table, "-y")
    assert (code, out) == (1, "")
    assert words in err


def test_the_error_of_a_changed_table_points_at_this_command(
    catalog: SealedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    from sealberg.cli.main import _report

    _report(TrustError("changed"), as_json=False)
    assert "hint: `sealberg trust TABLE`" in capsys.readouterr().err


def configure(lake: Lake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PYICEBERG_HOME", str(folder))
    lines = [f"    {name}: {value}" for name, value in lake.properties.items()]
    (folder / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  test:", *lines]))


def test_a_hash_that_is_missing_is_entered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalogs._lake("glue", tmp_path) as lake:
        configure(lake, tmp_path, monkeypatch)
        catalog = lake.connect()
        catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        before = parameters("db.t")
        set_parameters("db.t", {"metadata_hash": None})
        code, out, _ = run(capsys, "db.t", "-y", catalog="test")
        assert code == 0
        assert "hash         trusted  nothing\n" in out
        assert parameters("db.t") == before


def test_every_catalog_that_vouches_can_be_told_to_accept(
    vouching: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(vouching, tmp_path, monkeypatch)
    catalog = vouching.connect()
    table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    table.append(ROWS)
    place = path_of(table.metadata_location)
    raw = json.loads(place.read_text())
    for name, code in (("hr", 0), ("theirs", 1)):
        place.write_text(json.dumps({**raw, "properties": {"encryption.key-id": name, "owner": "them"}}))
        with pytest.raises(TrustError):
            catalog.load_table("db.t")
        assert run(capsys, "db.t", "-y", catalog="test")[0] == code
    place.write_text(json.dumps({**raw, "properties": {"encryption.key-id": "hr", "owner": "them"}}))
    again = catalog.load_table("db.t")
    assert again.properties["owner"] == "them"
    again.append(ROWS)
    assert len(catalog.load_table("db.t").metadata.snapshots) == 2
