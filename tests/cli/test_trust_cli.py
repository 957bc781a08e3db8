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
from kit.servers.glue import parameters, set_parameters
from kit.servers.postgres import MEMORY_KMS
from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.catalogs.sql.catalog import EncryptedSql
from sealberg.cli.main import main
from sealberg.errors import ConfigError, TrustError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kit.tables.catalogs import Lake

vouching = catalogs.vouching  # a fixture

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EncryptedSql]:
    """The catalog `prod` of the configuration, with the encrypted table db.t."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path / "local"))
    settings = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w", **MEMORY_KMS}
    lines = [f"    {name}: {value}" for name, value in settings.items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  prod:", *lines]))
    with sealberg.load_catalog("prod") as opened:
        assert isinstance(opened, EncryptedSql)
        opened.create_namespace("db")
        opened.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"}).append(ROWS)
        yield opened


def run(capsys: pytest.CaptureFixture[str], *arguments: str, catalog: str = "prod") -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["trust", *arguments, "--catalog", catalog])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_wrong_catalog_name_lists_the_configured_ones(
    catalog: EncryptedSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__DEV__URI", f"sqlite:///{tmp_path}/dev.db")
    code, out, err = run(capsys, "db.t", catalog="prodd")
    assert (code, out) == (1, "")
    assert err.startswith(
        "error: no catalog prodd is configured; the configured catalogs are dev, prod (from .pyiceberg"
    )
    with pytest.raises(ConfigError, match="the configured catalogs are dev, prod"):
        sealberg.load_catalog("prodd")
    monkeypatch.setattr("sealberg.spark.jar.find_jar", lambda: Path("sealberg.jar"))  # it takes seconds to compile
    with pytest.raises(SystemExit):
        main(["spark-conf", "--catalog", "prodd"])
    told = capsys.readouterr()
    assert "warning: no catalog prodd is configured on this machine (configured: dev, prod)" in told.err
    assert "spark.sql.catalog.prodd" in told.out


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"TYPE": "abacus"}, "abacus"),
        ({"URI": "gopher://x"}, "Could not infer the catalog type from the uri"),
        ({"TYPE": "sql"}, "URI missing"),
    ],
)
def test_a_configuration_that_cannot_be_right_is_told_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], setting: dict[str, str], words: str
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__DEV__{name}", value)
    code, _, err = run(capsys, "db.t", catalog="dev")
    assert code == 1
    assert err.startswith("error: ")
    assert words in err


def changed(catalog: EncryptedSql, **properties: str) -> str:
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


def test_a_change_is_shown_and_accepted_with_yes(catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]) -> None:
    place = changed(catalog, owner="them")
    code, out, err = run(capsys, "db.t", "-y")
    assert (code, err) == (0, "")
    assert "metadata     trusted  file://" in out
    assert f"found    file://{place}" in out
    assert "hash         trusted" in out
    assert "key id       hr\n" in out
    assert "key length   the default\n" in out
    assert "snapshots:\n  + snapshots[" in out
    assert "append, 3 rows" in out
    assert "current snapshot and refs:\n  ~ current-snapshot-id: " in out
    assert "encryption keys:\n  + encryption-keys[" in out
    assert "properties:\n  + properties.owner: them" in out
    assert "counters:\n  ~ last-sequence-number: 1 -> 2" in out
    assert "changed in place" not in out
    assert "the catalog vouches for what was found" in out
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6


def test_json_says_the_same(catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]) -> None:
    place = changed(catalog, owner="them")
    code, out, _ = run(capsys, "db.t", "-y", "--json")
    told = json.loads(out)
    assert (code, told["accepted"], told["table"]) == (0, True, "db.t")
    assert told["found"]["metadata_location"] == f"file://{place}"
    assert told["trusted"]["key_id"] == told["found"]["key_id"] == "hr"
    assert told["compared"] is True
    by_path = {each["path"]: each for each in told["changes"]}
    assert by_path["properties.owner"] == {
        "group": "properties",
        "change": "added",
        "path": "properties.owner",
        "before": None,
        "after": "them",
        "in_place": False,
    }
    assert [each["change"] for each in told["changes"] if each["group"] == "snapshots"] == ["added"]
    assert not [each for each in told["changes"] if each["in_place"]]


def test_nothing_is_accepted_where_nobody_can_be_asked(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(catalog)
    code, out, err = run(capsys, "db.t")
    assert code == 1
    assert "+ snapshots[" in out
    assert "use --yes or --hash" in err
    with pytest.raises(TrustError):
        catalog.load_table("db.t")


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 130)])
def test_the_answer_decides(
    catalog: EncryptedSql,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,
    code: int,
) -> None:
    changed(catalog)
    import click

    def confirm(question: str, *, abort: bool, err: bool) -> bool:
        assert question == "Vouch for the metadata in storage?"
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


def test_another_key_id_is_refused_even_with_yes(catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_nothing_to_accept_is_no_error(catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "db.t")
    assert (code, err) == (0, "")
    assert "nothing to accept" in out


def test_a_rolled_back_table_shows_what_would_be_lost(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    table: Any = catalog.load_table("db.t")
    older = table.metadata_location
    table.append(ROWS)
    with Session(catalog.engine) as session:
        session.execute(update(IcebergTables).values(metadata_location=older))
        session.commit()
    code, out, _ = run(capsys, "db.t", "-y")
    assert code == 0
    assert "- snapshots[" in out
    assert "- encryption-keys[" in out
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 3


def test_without_the_old_metadata_yes_is_not_enough_and_the_hash_is(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who changed a snapshot in place can also delete the document that would show it."""
    trusted = catalog.trusted("db.t")
    assert trusted is not None
    changed(catalog)
    Path(trusted.metadata_location.removeprefix("file://")).unlink()
    code, out, err = run(capsys, "db.t", "-y")
    assert code == 1
    assert "the changes cannot be shown" in out
    assert "changes in place cannot be ruled out" in err
    found, _ = catalog.found("db.t")
    assert found is not None
    code, out, _ = run(capsys, "db.t", "-y", "--json")
    told = json.loads(out)
    assert (code, told["compared"], told["accepted"], told["error"]["type"]) == (1, False, False, "TrustError")
    assert run(capsys, "db.t", "--hash", "x" * 44)[0] == 1
    assert catalog.trusted("db.t") == trusted
    code, out, _ = run(capsys, "db.t", "--hash", str(found.metadata_hash))
    assert code == 0
    assert catalog.load_table("db.t").scan().to_arrow().num_rows == 6


def edited(catalog: EncryptedSql, edit: Callable[[dict[str, Any]], object]) -> None:
    """Another tool sets a property; somebody edits what that tool wrote, before anybody has looked at it."""
    place = Path(changed(catalog, owner="etl"))
    raw = json.loads(place.read_text())
    edit(raw)
    place.write_text(json.dumps(raw))


def older_list(raw: dict[str, Any]) -> None:
    first, last = raw["snapshots"][0], raw["snapshots"][-1]
    last["manifest-list"], last["key-id"] = first["manifest-list"], first["key-id"]
    first["manifest-list"], first["key-id"] = "file:///tmp/other", "0"


def other_key(raw: dict[str, Any]) -> None:
    raw["encryption-keys"][0]["encrypted-key-metadata"] = "A" * 16


def other_spec(raw: dict[str, Any]) -> None:
    raw["partition-specs"][0]["fields"] = [{"name": "x", "transform": "identity", "source-id": 1, "field-id": 1000}]


IN_PLACE: dict[str, Callable[[dict[str, Any]], object]] = {
    "schemas[0].fields[id=1].name": lambda raw: raw["schemas"][0]["fields"][0].update(name="salary"),
    "snapshots[": older_list,
    "encryption-keys[": other_key,
    "partition-specs[0].fields[0]": other_spec,
    "table-uuid": lambda raw: raw.update({"table-uuid": "00000000-0000-0000-0000-000000000001"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("path", IN_PLACE)
def test_what_was_changed_in_place_is_not_accepted_by_yes(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    edited(catalog, IN_PLACE[path])
    before = catalog.trusted("db.t")
    code, out, err = run(capsys, "db.t", "-y")
    assert code == 1
    assert f"! changed in place: {path}" in out
    assert "+ properties.owner: etl" in out
    assert "not accepted by --yes" in err
    assert "A" * 16 not in out, "a wrapped key is shown by its length and a digest"
    code, out, _ = run(capsys, "db.t", "-y", "--json")
    told = json.loads(out)
    assert (code, told["accepted"]) == (1, False)
    assert any(each["in_place"] and each["path"].startswith(path) for each in told["changes"])
    assert catalog.trusted("db.t") == before


def test_a_person_is_warned_of_what_was_changed_in_place(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(catalog, IN_PLACE["schemas[0].fields[id=1].name"])
    import click

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    asked: list[str] = []
    monkeypatch.setattr(click, "confirm", lambda question, **_: asked.append(question))
    code, _, err = run(capsys, "db.t")
    assert code == 0
    assert asked
    assert "WARNING: THIS DOES NOT LOOK LIKE A COMMIT" in err
    assert "! schemas[0].fields[id=1].name was changed in place" in err
    assert catalog.load_table("db.t").schema().column_names == ["salary"]


def test_text_from_metadata_does_not_reach_the_terminal_as_commands(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\n\r"
    edited(catalog, lambda raw: raw["properties"].update({f"a{hostile}": hostile}))
    for option in ("--json", "-y"):
        _, out, err = run(capsys, "db.t", option)
        assert "owned" in out
        assert not set(hostile) & set(out + err) - set("\n0123456789]0;owned[2J31mgnp")


def test_a_document_with_other_spaces_has_no_differences(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = catalog.trusted("db.t")
    assert trusted is not None
    place = Path(trusted.metadata_location.removeprefix("file://"))
    other = place.with_name("00009-00000000-0000-0000-0000-000000000001.metadata.json")
    other.write_text(json.dumps(json.loads(place.read_text()), indent=3))
    with Session(catalog.engine) as session:
        session.execute(update(IcebergTables).values(metadata_location=f"file://{other}"))
        session.commit()
    code, out, _ = run(capsys, "db.t", "-y")
    assert code == 0
    assert "no differences in content" in out


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("db.nobody", "no table db.nobody in the catalog prod"),
        ("nobody", "must be NAMESPACE.TABLE, found nobody"),
        ("db.plain", "is not encrypted"),
        ("db.old", "table metadata have the format version 2, expected 3"),
    ],
)
def test_what_cannot_be_vouched_for_is_one_line(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str], table: str, words: str
) -> None:
    catalog.create_table("db.plain", ROWS.schema, properties={"format-version": "3"})
    catalog.create_table("db.old", ROWS.schema)
    code, out, err = run(capsys, table, "-y")
    assert (code, out) == (2 if "no table" in words else 1, "")
    assert words in err


def test_the_error_of_a_changed_table_points_at_this_command(
    catalog: EncryptedSql, capsys: pytest.CaptureFixture[str]
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
        assert run(capsys, "db.t", "-y", catalog="test")[0] == 1, "the document to compare with is gone"
        found, _ = catalog.found("db.t")
        assert run(capsys, "db.t", "--hash", found.metadata_hash, catalog="test")[0] == code
    place.write_text(json.dumps({**raw, "properties": {"encryption.key-id": "hr", "owner": "them"}}))
    again = catalog.load_table("db.t")
    assert again.properties["owner"] == "them"
    again.append(ROWS)
    assert len(catalog.load_table("db.t").metadata.snapshots) == 2


def test_in_every_catalog_a_moved_pointer_is_compared_with_what_was_vouched_for(
    vouching: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive and Glue know the old document by its hash alone; it is found beside the new one."""
    configure(vouching, tmp_path, monkeypatch)
    catalog = vouching.connect()
    table = catalog.create_table("db.t", ROWS.schema, properties={"encryption.key-id": "hr"})
    table.append(ROWS)
    place = path_of(table.metadata_location)
    raw = json.loads(place.read_text())
    raw["properties"]["owner"] = "them"
    raw["metadata-log"].append({"timestamp-ms": raw["last-updated-ms"], "metadata-file": table.metadata_location})
    other = place.with_name("00009-00000000-0000-0000-0000-000000000001.metadata.json")
    other.write_text(json.dumps(raw))
    assert vouching.meddling is not None
    vouching.meddling.point_at("t", str(table.metadata_location).replace(place.name, other.name))
    code, out, err = run(capsys, "db.t", "-y", catalog="test")
    assert (code, err) == (0, "")
    assert "+ properties.owner: them" in out
    assert catalog.load_table("db.t").properties["owner"] == "them"
