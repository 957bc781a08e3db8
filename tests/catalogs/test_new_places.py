"""Where tables are: a new table gets a folder of its own, at a location that every reader understands alike."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_plain
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.table.update import SetLocationUpdate

from kit.tables import catalogs
from kit.tables.catalogs import path_of
from sealberg.catalogs.guard import guarded
from sealberg.errors import ConfigError, LocationError, UnsupportedError
from sealberg.files.confined_io import ConfinedFileIO

if TYPE_CHECKING:
    from kit.tables.catalogs import Lake

lake = catalogs.lake  # the fixture

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
KINDS: dict[str, dict[str, str]] = {
    "encrypted": {"encryption.key-id": "hr"},
    "version 3": {"format-version": "3"},
    "version 2": {"format-version": "2"},
    "version 1": {"format-version": "1"},
}
ODD_NAMES = ("../../../outside", "x#y", "x?y", "x\ny", "x\u2028y", "..", "a/../b", "x\x00y", "a//b")
ODD_PATHS = ("relative/x", "file://localhost/x", "/w/a#b", "/w/a?b", "/w/./a", "/w/../a", "/w//a", "/w/a\n", "")
PATHS = ("write.data.path", "write.metadata.path")
WANTED = {"sealberg.create.allow-non-empty-location": "true"}
# Where the client writes metadata files, and where a name may have any character.
NO_SERVER = pytest.mark.parametrize("lake", catalogs.VOUCHING, indirect=True)
CLEAN = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


@pytest.fixture(params=KINDS)
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    return KINDS[request.param]


@pytest.fixture
def catalog(lake: Lake) -> Any:
    return lake.connect()


@pytest.fixture
def other(tmp_path: Path) -> Any:
    """A catalog of PyIceberg's without support for encryption, as `guard` makes it."""
    plain = load_plain("g", type="sql", uri=f"sqlite:///{tmp_path}/g.db", warehouse=f"file://{tmp_path}/guarded")
    found = guarded(plain, "g", {})
    found.create_namespace("db")
    return found


def make(catalog: Any, name: Any, location: str | None = None, **properties: str) -> Any:
    identifier = ("db", name) if isinstance(name, str) else name
    return catalog.create_table(identifier, ROWS.schema, location=location, properties=properties)


def folder(table: Any) -> Path:
    return path_of(table.metadata.location)


def count(catalog: Any, name: str) -> int:
    return int(catalog.load_table(("db", name)).scan().to_arrow().num_rows)


def files(top: Path) -> set[Path]:
    return {path for path in top.rglob("*") if path.is_file()}


# -- locations that readers understand differently --------------------------------------------------


@pytest.mark.every_catalog
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_gives_an_odd_location_is_refused_before_anything_is_written(
    kind: str, catalog: Any, lake: Lake, tmp_path: Path
) -> None:
    before = lake.files()
    for name in ODD_NAMES:
        for create in (catalog.create_table, catalog.create_table_transaction, catalog.create_table_if_not_exists):
            with pytest.raises(LocationError, match="LOCATION of its own"):
                create(("db", name), ROWS.schema, properties=KINDS[kind])
    assert lake.files() == before
    assert not list(tmp_path.rglob("outside"))
    assert not catalog.list_tables("db")


@pytest.mark.every_catalog
@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_location_is_refused_before_anything_is_written(kind: str, catalog: Any, lake: Lake) -> None:
    victim = make(catalog, "victim", **KINDS["encrypted"])
    victim.append(ROWS)
    pointer = catalog.load_table("db.victim").metadata_location
    texts = {file: Path(file).read_bytes() for file in lake.files()}
    for location in (f"{pointer}#", f"{pointer}?x", *filter(None, ODD_PATHS)):
        for create in (catalog.create_table, catalog.create_table_transaction):
            with pytest.raises(LocationError, match="the location of"):
                create("db.mine", ROWS.schema, location=location, properties=KINDS[kind])
    assert {file: Path(file).read_bytes() for file in lake.files()} == texts
    assert count(catalog, "victim") == 3


def test_an_odd_write_path_is_refused_at_create_and_alter(properties: dict[str, str], catalog: Any, lake: Lake) -> None:
    odd = [(name, path) for name in PATHS for path in ODD_PATHS]
    for name, path in odd:
        for create in (catalog.create_table, catalog.create_table_transaction):
            with pytest.raises(LocationError, match=name):
                create("db.t", ROWS.schema, properties={**properties, name: path})
    assert not lake.files()
    table = make(catalog, "t", **properties)
    before = table.metadata_location
    for name, path in odd:
        with pytest.raises(LocationError, match=name), table.transaction() as change:
            change.set_properties({name: path})
    assert catalog.load_table("db.t").metadata_location == before


def test_an_odd_location_is_refused_when_a_table_moves(properties: dict[str, str], catalog: Any) -> None:
    table = make(catalog, "t", **properties)
    for path in ODD_PATHS:
        with pytest.raises(LocationError, match="location of the table"):
            catalog.commit_table(table, (), (SetLocationUpdate(location=path),))


def test_an_odd_path_in_the_transaction_that_creates_a_table_is_refused(
    properties: dict[str, str], catalog: Any
) -> None:
    change = catalog.create_table_transaction("db.t", ROWS.schema, properties=properties)
    change.set_properties({"write.data.path": "/w/../a"})
    with pytest.raises(LocationError, match=r"write\.data\.path"):
        change.commit_transaction()
    assert not catalog.table_exists("db.t")


def test_a_table_that_has_an_odd_path_is_read_altered_and_dropped(
    properties: dict[str, str], catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, "t", **properties)
    table.append(ROWS)
    with monkeypatch.context() as lenient:
        lenient.setattr("sealberg.metadata.invariants.check_paths", lambda *_: None)
        lenient.setattr("sealberg.metadata.invariants.check_places", lambda *_: None)
        with table.transaction() as change:
            change.set_properties({"write.data.path": f"file://{lake.warehouse}/./x"})
    table = lake.connect().load_table("db.t")
    assert table.scan().to_arrow().num_rows == 3
    with table.transaction() as change:
        change.set_properties({"comment": "x", "write.data.path": table.properties["write.data.path"]})
    with table.transaction() as change:
        change.remove_properties("write.data.path")
    table.append(ROWS)
    assert count(catalog, "t") == 6
    catalog.drop_table("db.t")


def test_a_namespace_with_an_odd_location_gives_no_table_at_it(
    properties: dict[str, str], catalog: Any, lake: Lake, tmp_path: Path
) -> None:
    odd = f"odd_{uuid4().hex}"  # a Metastore is shared
    catalog.create_namespace(odd, {"location": f"file://{tmp_path}/a/../b"})
    normal = {"hive": tmp_path / "b" / "t", "rest": lake.warehouse / odd / "t"}.get(lake.kind)
    if normal is not None:  # the server makes the location normal, or does not use it
        assert folder(make(catalog, (odd, "t"), **properties)) == normal
        return
    with pytest.raises(LocationError, match=r"segment `\.\.`.*LOCATION of its own"):
        make(catalog, (odd, "t"), **properties)
    assert folder(make(catalog, (odd, "t"), f"file://{tmp_path}/own", **properties)) == tmp_path / "own"


@pytest.mark.parametrize("location", ["relative/x", "file://localhost/x", "file:x", "/w/a#b"])
def test_no_odd_location_reaches_a_file_io_for_writing(location: str) -> None:
    class Never:
        properties: dict[str, str] = {}

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    io = ConfinedFileIO(Never(), {"file"})  # type: ignore[arg-type]
    for reach in (io.new_output, io.delete):
        with pytest.raises(LocationError):
            reach(location)


def test_metadata_at_an_odd_location_are_not_registered(properties: dict[str, str], catalog: Any) -> None:
    table = make(catalog, "t", **properties)
    place = table.metadata_location
    catalog.drop_table("db.t")
    for odd in (place.replace("/metadata/", "/./metadata/"), f"{place}#x", f"{place}?x"):
        with pytest.raises(LocationError, match="metadata file"):
            catalog.register_table("db.t", odd)
    assert catalog.register_table("db.t", place).metadata_location == place


# -- a folder of its own ----------------------------------------------------------------------------


@pytest.mark.every_catalog
@pytest.mark.parametrize("kind", KINDS)
def test_a_new_table_never_gets_the_folder_of_a_dropped_or_renamed_one(kind: str, catalog: Any, lake: Lake) -> None:
    first = make(catalog, "t", **KINDS[kind])
    usual = folder(first)
    assert usual.name == "t"
    catalog.drop_table("db.t")
    left = {file: Path(file).read_bytes() for file in lake.files()}
    second = make(catalog, "t", **KINDS[kind])
    assert folder(second).parent == usual.parent
    assert folder(second).name.startswith("t-")
    catalog.rename_table("db.t", "db.moved")
    third = make(catalog, "t", **KINDS[kind])
    assert len({folder(each) for each in (first, second, third)}) == 3
    assert left.items() <= {file: Path(file).read_bytes() for file in lake.files()}.items()


@pytest.mark.every_catalog
@pytest.mark.parametrize("kind", KINDS)
def test_a_given_location_with_files_is_refused_unless_wanted(kind: str, catalog: Any, lake: Lake) -> None:
    place = lake.warehouse / "given"
    place.mkdir(parents=True)
    (place / "keystore.age").write_text("precious")
    for create in (catalog.create_table, catalog.create_table_transaction):
        with pytest.raises(LocationError, match=r"is not empty: there is .*keystore"):
            create("db.t", ROWS.schema, location=f"file://{place}", properties=KINDS[kind])
    assert [path.name for path in place.iterdir()] == ["keystore.age"]
    table = make(catalog, "t", f"file://{place}", **KINDS[kind], **WANTED)
    assert folder(table) == place
    assert not WANTED.keys() & catalog.load_table("db.t").properties.keys()
    with pytest.raises(ConfigError, match="no table has it"), table.transaction() as change:
        change.set_properties(WANTED)


@pytest.mark.parametrize("wanted", [{}, WANTED], ids=["", "wanted"])
def test_two_live_tables_never_share_a_folder(
    wanted: dict[str, str], properties: dict[str, str], catalog: Any, lake: Lake
) -> None:
    table = make(catalog, "t", f"file://{lake.warehouse}/top/t", **properties)
    link = lake.warehouse / "link"
    link.symlink_to(lake.warehouse / "top")
    inside = lake.warehouse / "inside"
    inside.symlink_to(folder(table))
    same = (folder(table), f"file:{folder(table)}", f"file://{folder(table)}/", link / "t", inside)
    within = (folder(table) / "deep", folder(table) / "metadata" / "deep", link / "t" / "x", inside / "x" / "y")
    around = (lake.warehouse, lake.warehouse / "top", link)
    for place in map(str, (*same, *within, *around)):
        for create in (catalog.create_table, catalog.create_table_transaction):
            with pytest.raises(LocationError):
                create("db.other", ROWS.schema, location=place, properties={**properties, **wanted})
    assert catalog.list_tables("db") == [("db", "t")]
    assert folder(make(catalog, "t2", f"file://{lake.warehouse}/top/t2", **properties)).name == "t2"


def test_a_name_whose_folder_lies_in_a_table_is_refused(properties: dict[str, str], catalog: Any) -> None:
    place = folder(make(catalog, "t", **properties))
    with pytest.raises(LocationError, match="LOCATION of its own"):
        make(catalog, "t/x", **properties)
    assert not (place / "x").exists()


@NO_SERVER
def test_a_table_around_another_gets_a_unique_folder(properties: dict[str, str], catalog: Any) -> None:
    inner = make(catalog, "a/b", **properties)
    outer = make(catalog, "a", **properties)
    assert folder(outer) not in folder(inner).parents
    assert folder(outer).name.startswith("a-")


def test_the_folder_of_a_dropped_table_can_be_given_if_it_is_wanted(properties: dict[str, str], catalog: Any) -> None:
    place = f"file://{folder(make(catalog, 't', **properties))}"
    catalog.drop_table("db.t")
    for location in (place, f"{place}/x"):
        with pytest.raises(LocationError):
            make(catalog, "again", location, **properties)
    assert make(catalog, "again", place, **properties, **WANTED).metadata.location == place


@pytest.mark.parametrize("kind", KINDS)
def test_unique_table_location_is_a_property_of_the_catalog(kind: str, lake: Lake) -> None:
    catalog = lake.connect(**{"unique-table-location": "true"})
    assert folder(make(catalog, "t", **KINDS[kind])).name.startswith("t-")
    given = make(catalog, "u", f"file://{lake.warehouse}/here", **KINDS[kind])
    assert folder(given).name == "here"
    with pytest.raises(ConfigError, match=r"unique-table-location.*true or false"):
        make(lake.connect(**{"unique-table-location": "yes"}), "v", **KINDS[kind])


def test_an_existing_table_is_said_to_exist_and_is_given_if_it_may(properties: dict[str, str], catalog: Any) -> None:
    table = make(catalog, "t", **properties)
    place = table.metadata.location
    for location in (None, place):
        with pytest.raises(TableAlreadyExistsError):
            make(catalog, "t", location, **properties)
        again = catalog.create_table_if_not_exists("db.t", ROWS.schema, location=location, properties=properties)
        assert again.metadata.table_uuid == table.metadata.table_uuid


def test_a_store_that_cannot_be_listed_is_believed_to_be_empty(monkeypatch: pytest.MonkeyPatch, catalog: Any) -> None:
    def unable(*_: object) -> Any:
        raise UnsupportedError("cannot list files")

    monkeypatch.setattr("sealberg.catalogs.new_places.first_file", unable)
    monkeypatch.setattr("sealberg.catalogs.new_places.list_files", unable)
    assert folder(make(catalog, "t", **KINDS["encrypted"])).name == "t"


# -- catalogs without support for encryption ----------------------------------------------------------


def test_a_guarded_catalog_has_the_same_rules(other: Any, tmp_path: Path) -> None:
    for name in ODD_NAMES:
        for create in (other.create_table, other.create_table_transaction, other.create_table_if_not_exists):
            with pytest.raises(LocationError, match="LOCATION of its own"):
                create(("db", name), ROWS.schema)
    for place in filter(None, ODD_PATHS):
        with pytest.raises(LocationError):
            other.create_table("db.t", ROWS.schema, place)
        with pytest.raises(LocationError):
            other.create_table("db.t", ROWS.schema, location=place)
        with pytest.raises(LocationError):
            make(other, "t", **{"write.data.path": place})
    assert not files(tmp_path / "guarded")
    first = make(other, "t")
    with pytest.raises(TableAlreadyExistsError):
        other.create_table("db.t", ROWS.schema, first.metadata.location)
    with pytest.raises(LocationError, match="not empty"):
        other.create_table("db.u", ROWS.schema, first.metadata.location)
    with pytest.raises(LocationError, match="share files"):
        make(other, "u", first.metadata.location, **WANTED)
    with pytest.raises(LocationError, match=r"write\.data\.path"), first.transaction() as change:
        change.set_properties({"write.data.path": "/a/../b"})
    other.drop_table("db.t")
    assert folder(make(other, "t")) != folder(first)


# -- metadata.json is created, never overwritten --------------------------------------------------------


@NO_SERVER
@pytest.mark.parametrize("kind", ["encrypted", "version 3"])
def test_a_metadata_file_that_is_there_is_neither_overwritten_nor_deleted(
    kind: str, catalog: Any, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(catalog, "t", **KINDS[kind])
    taken = folder(table) / "metadata" / "taken.metadata.json"
    taken.write_text("precious")
    monkeypatch.setattr(
        "pyiceberg.table.locations.LocationProvider.new_table_metadata_file_location", lambda *_: f"file://{taken}"
    )
    with pytest.raises(FileExistsError, match="not overwritten"), table.transaction() as change:
        change.set_properties({"comment": "x"})
    with pytest.raises(FileExistsError, match="not overwritten"):
        make(catalog, "u", **KINDS[kind])
    assert taken.read_text() == "precious"
    assert count(catalog, "t") == 0


# -- delete-after-commit --------------------------------------------------------------------------------


def test_old_metadata_files_go_after_a_commit(properties: dict[str, str], catalog: Any) -> None:
    table = make(catalog, "t", **properties, **CLEAN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            table.append(ROWS)
    assert len(list((folder(table) / "metadata").glob("*.metadata.json"))) == 2
    assert count(catalog, "t") == 12


@pytest.mark.parametrize("lake", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True)
def test_the_current_metadata_file_of_a_second_name_stays(properties: dict[str, str], catalog: Any, lake: Lake) -> None:
    table = make(catalog, "t", **properties, **CLEAN)
    table.append(ROWS)
    catalog.register_table("db.copy", table.metadata_location)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            table.append(ROWS)
    assert "a table of the catalog has it as its current one" in "\n".join(str(each.message) for each in found)
    assert (count(lake.connect(), "copy"), count(catalog, "t")) == (3, 12)


@NO_SERVER
@pytest.mark.parametrize("kind", ["version 3", "version 2", "version 1", "guarded"])
def test_nothing_else_goes_after_a_commit_whatever_the_log_names(
    kind: str, lake: Lake, other: Any, tmp_path: Path
) -> None:
    catalog = other if kind == "guarded" else lake.connect()
    table = make(catalog, "t", **KINDS.get(kind, {}), **CLEAN)
    table.append(ROWS)
    neighbour = make(catalog, "n", **KINDS.get(kind, {}))
    table = catalog.load_table("db.t")
    place = path_of(table.metadata_location)
    beside = place.parent
    uuid = "0a1b2c3d-0000-4000-8000-000000000000"
    (beside / "keystore.age").write_text("precious")
    (beside / "deep").mkdir()
    (beside / "deep" / f"00001-{uuid}.metadata.json").write_text(place.read_text())
    (beside / f"00002-{uuid}.metadata.json").symlink_to(tmp_path / "target")
    (tmp_path / "target").write_text(place.read_text())
    (beside / f"00003-{uuid}.metadata.json").write_text(path_of(neighbour.metadata_location).read_text())
    (beside / f"00004-{uuid}.metadata.json").write_text("precious")
    (beside / f"00005-{uuid}.metadata.json").write_text(place.read_text())
    data = next(path for path in files(folder(table)) if path.suffix == ".parquet")
    victims = [
        *(path for path in beside.rglob("*") if uuid in path.name or "metadata.json" not in path.name),
        tmp_path / "target",
        path_of(neighbour.metadata_location),
        data,
    ]
    victims = [path for path in victims if path.is_file() and not path.name.startswith("00005")]
    odd = [f"file://{beside}/./00004-{uuid}.metadata.json", f"file://{place}#x", "file://localhost/x", "x", ""]
    raw = json.loads(place.read_text())
    log = [*(f"file://{path}" for path in victims), *odd, f"file://{beside}/00005-{uuid}.metadata.json"]
    raw["metadata-log"] = [
        {"timestamp-ms": raw["last-updated-ms"] - 100 + number, "metadata-file": each}
        for number, each in enumerate(log)
    ]
    place.write_text(json.dumps(raw))
    live = {path: path.read_bytes() for path in victims}
    fresh = catalog if kind == "guarded" else lake.connect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fresh.load_table("db.t").append(ROWS)
    said = "\n".join(str(each.message) for each in found)
    assert all(f"{path.name}' stays" in said for path in victims if path.parent != tmp_path)
    assert {path: path.read_bytes() for path in victims} == live
    assert (beside / f"00002-{uuid}.metadata.json").is_symlink()
    assert not (beside / f"00005-{uuid}.metadata.json").exists()
    assert count(catalog, "t") == 6
