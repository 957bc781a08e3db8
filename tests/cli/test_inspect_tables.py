"""`sealberg inspect` of tables, folders and globs: the key tree with ages, every file, and plaintext found out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sealberg
from kit.servers import store_servers
from kit.tables import golden
from sealberg.cli.main import main
from sealberg.jobs.inspect_target import Files, TableName, glob_pattern, resolve
from sealberg.keys.keyring import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

KEY = "ab" * 16
ROWS = pa.table({"id": [1, 2, 3]})


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--json")
    return code, json.loads(out)


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Table]:
    """The table hr.t of the catalog `prod`, with two snapshots; `prod` is PyIceberg's default catalog."""
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/prod.db",
        "warehouse": f"file://{tmp_path}/lake",
        "encryption__kms_type": "memory",
        "encryption__kms__memory__key__hr": KEY,
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper()}", value)
    monkeypatch.setenv("PYICEBERG_DEFAULT_CATALOG", "prod")
    with sealberg.load_catalog("prod") as catalog:
        catalog.create_namespace("hr")
        table = catalog.create_table("hr.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        table.append(ROWS)
        yield table


def test_a_table_shows_its_keys_with_age_and_state(lake: Table, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "hr.t")
    assert (code, err) == (0, "")
    assert "hr.t: encrypted table\n  catalog        prod: vouches for the metadata by their hash\n" in out
    assert "  current        6 rows, 2 data files, 0 delete files, " in out
    assert "  manifest-list  2 files, " in out
    assert "master key hr (in the KMS)\n└─ KEK " in out
    assert " (made today), active, wrapped in 44 bytes\n" in out
    assert out.count("list key ") == 2
    assert out.count("(current)") == 1
    assert lake.metadata_location in out


def test_the_kms_is_asked_only_for_files(
    lake: Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__ENCRYPTION__KMS__MEMORY__KEY__HR", "cd" * 16)  # another key
    assert run(capsys, "hr.t")[0] == 0
    code, found = run_json(capsys, "hr.t", "--files")
    assert code in (1, 2)
    assert found["findings"] or found["not_checked"]


def test_files_lists_manifests_and_files_and_never_a_key(lake: Table, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = run_json(capsys, "hr.t", "--catalog", "prod", "--files")
    assert code == 0
    kinds = [file["kind"] for file in found["files"]]
    assert kinds == ["manifest-list"] * 2 + ["manifest"] * 2 + ["data"] * 2
    assert {file["form"] for file in found["files"]} == {"ags1", "parquet-encrypted"}
    sizes = {file["location"]: file["stored_length"] for file in found["files"]}
    assert all(path_of(location).stat().st_size == length for location, length in sizes.items())
    code, out, _ = run(capsys, "hr.t", "--files")
    assert code == 0
    assert all(location in out for location in sizes)
    secrets = [
        entry.data_file.key_metadata or b""
        for manifest in lake.current_snapshot().manifests(lake.io)  # type: ignore[union-attr]
        for entry in manifest.fetch_manifest_entry(lake.io)
    ]
    for text in (out, json.dumps(found)):
        assert all(len(key) > 32 for key in secrets)
        assert not any(key.hex()[8:40] in text.lower() for key in secrets)


def test_a_plaintext_a_missing_and_a_cut_file_of_a_table_are_findings(
    lake: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, gone = [path_of(task.file.file_path) for task in lake.scan().plan_files()]
    pq.write_table(ROWS, plain)
    gone.unlink()
    cut = path_of(lake.current_snapshot().manifest_list)  # type: ignore[union-attr]
    assert run(capsys, "hr.t")[0] == 0  # data files are looked at only with --files
    code, found = run_json(capsys, "hr.t", "--files")
    assert code == 1
    assert {(each["code"], path_of(each["file"])) for each in found["findings"]} == {
        ("plaintext", plain),
        ("missing", gone),
    }
    cut.write_bytes(cut.read_bytes()[:20])
    code, found = run_json(capsys, "hr.t")
    assert (code, [each["code"] for each in found["findings"]]) == (1, ["malformed"])


def test_metadata_that_the_catalog_does_not_vouch_for_are_a_finding(
    lake: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    path = path_of(lake.metadata_location)
    path.write_text(path.read_text().replace('"last-updated-ms":', '"last-updated-ms": '))
    code, out, _ = run(capsys, "hr.t")
    assert code == 1
    assert "! catalog: " in out


def test_a_plain_table_is_a_finding(lake: Table, capsys: pytest.CaptureFixture[str]) -> None:
    lake.catalog.create_table("hr.plain", ROWS.schema).append(ROWS)
    code, out, _ = run(capsys, "hr.plain", "--files")
    assert code == 1
    assert "! plaintext: the table is not encrypted\n" in out
    assert out.count("! ") == 1
    assert " parquet " in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["hr.none"], "no table hr.none in the catalog prod"),
        (["hr.t", "--catalog", "test"], "no catalog test is configured"),
        (["no/such/folder"], "does not exist"),
        (["*.avro"], "no file matches *.avro"),
    ],
)
def test_what_cannot_be_checked_is_exit_code_2(
    arguments: list[str], words: str, lake: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_metadata_json_with_files_opens_the_table_without_its_catalog(
    lake: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run_json(capsys, str(path_of(lake.metadata_location)), "--files")
    assert (code, found["table"]["vouched_by"], len(found["files"])) == (0, "nobody", 6)


def test_a_folder_is_shown_by_kinds_and_its_plaintext_is_found(lake: Table, capsys: pytest.CaptureFixture[str]) -> None:
    folder = path_of(lake.metadata.location)
    code, out, _ = run(capsys, str(folder))
    assert code == 0
    assert "parquet-encrypted  2 files, " in out
    (folder / "metadata" / "version-hint.text").write_text("2")
    (folder / "data" / ".a.parquet.crc").write_bytes(b"crc\0" + bytes(8))
    (folder / "data" / "tmp").mkdir()
    pq.write_table(ROWS, folder / "data" / "tmp" / "leak.parquet")
    (folder / "notes.txt").write_text("salaries")
    (folder / "keys.age").write_bytes(b"age-encryption.org/v1\n")
    code, found = run_json(capsys, f"{folder}/")
    assert code == 1
    assert sorted((each["code"], Path(each["file"]).name) for each in found["findings"]) == [
        ("foreign", "keys.age"),
        ("plaintext", "leak.parquet"),
        ("plaintext", "notes.txt"),
    ]
    code, found = run_json(capsys, f"file://{folder}/data/**/*.parquet")
    assert (code, len(found["files"])) == (1, 3)


def test_an_old_kek_shows_its_age_state_and_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = golden.metadata("rotated")
    path = tmp_path / "m"
    path.write_text(json.dumps(metadata))
    _, found = run_json(capsys, str(path))
    old, new = sorted(found["keks"], key=lambda kek: kek["made_ms"])
    assert (old["state"], new["state"]) in (("retired", "active"), ("retired", "past-end"), ("retired", "near-end"))
    assert old["expires_ms"] - old["made_ms"] == 730 * DAY_MS
    assert sorted((*old["snapshots"], *new["snapshots"])) == sorted(s["snapshot-id"] for s in metadata["snapshots"])
    _, out, _ = run(capsys, str(path))
    assert "may still unwrap" in out


def test_golden_folders_of_java_hold_no_foreign_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    copy = tmp_path / "t"
    shutil.copytree(golden.root() / "wh/db.db/basic128", copy)
    code, found = run_json(capsys, str(copy))
    assert (code, found["findings"]) == (0, [])
    assert len(found["files"]) > 5


def test_local_files_are_inspected_without_pyiceberg(tmp_path: Path) -> None:
    (tmp_path / "f.avro").write_bytes(b"Obj\x01" + bytes(20))
    program = (
        "import sys\nfrom sealberg.cli.main import main\n"
        "for name in sys.argv[1:]:\n"
        "    try: main(['inspect', name])\n"
        "    except SystemExit as ended: assert ended.code == 1\n"
        "assert 'pyiceberg' not in sys.modules and 'pyarrow' not in sys.modules"
    )
    names = [str(tmp_path / "f.avro"), str(tmp_path), str(tmp_path / "*.avro")]
    subprocess.run([sys.executable, "-c", program, *names], check=True, capture_output=True)


def test_a_name_is_a_path_if_it_exists_and_a_table_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("hr.t") == TableName("hr.t")
    (tmp_path / "hr.t").write_bytes(b"")
    assert resolve("hr.t") == Files(("hr.t",), several=False)
    assert resolve("hr.t", "prod") == TableName("hr.t")
    assert resolve("./hr.t", "prod") == Files(("./hr.t",), several=False)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("s3://b/*.avro", "s3://b/a.avro", "s3://b/c/a.avro"),
        ("s3://b/**/*.avro", "s3://b/c/d/a.avro", "s3://b/a.parquet"),
        ("s3://b/**", "s3://b/c/d", "s3://x/c"),
        ("s3://b/[a-c]?", "s3://b/b1", "s3://b/d1"),
        ("s3://b/[!a]+", "s3://b/b+", "s3://b/a+"),
    ],
)
def test_a_glob_in_a_store_matches_as_in_a_shell(pattern: str, matching: str, other: str) -> None:
    assert glob_pattern(pattern).fullmatch(matching)
    assert not glob_pattern(pattern).fullmatch(other)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("name", ["s3", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gcs", "azure"))])
def test_files_folders_and_globs_of_a_store_are_inspected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = getattr(store_servers, name)()
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": store.warehouse}
    kms = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": KEY}
    lines = [f"    {name}: '{value}'" for name, value in {**lake, **kms, **store.properties}.items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["catalog:", "  lake:", *lines, ""]))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with sealberg.load_catalog("lake") as catalog:
        catalog.create_namespace("hr")
        table = catalog.create_table("hr.t", ROWS.schema, properties={"encryption.key-id": "hr"})
        table.append(ROWS)
        location = table.metadata.location
        code, found = run_json(capsys, "hr.t", "--catalog", "lake", "--files")
        assert (code, len(found["files"])) == (0, 3)
        code, found = run_json(capsys, f"{location}/", "--catalog", "lake")
        assert (code, sorted(file["form"] for file in found["files"])) == (
            0,
            ["ags1", "ags1", "metadata", "metadata", "parquet-encrypted"],
        )
        code, found = run_json(capsys, f"{location}/**/*.avro", "--catalog", "lake")
        assert (code, [file["form"] for file in found["files"]]) == (0, ["ags1", "ags1"])
        code, found = run_json(capsys, table.metadata_location, "--catalog", "lake")
        assert (code, found["kind"], len(found["keks"])) == (0, "metadata", 1)
        with table.io.inner.new_output(f"{location}/data/leak.avro").create() as sink:  # type: ignore[attr-defined]
            sink.write(b"Obj\x01" + bytes(20))
        code, found = run_json(capsys, location, "--catalog", "lake")
        assert (code, [each["code"] for each in found["findings"]]) == (1, ["plaintext"])
        code, _, err = run(capsys, f"{location}/nothing", "--catalog", "lake")
        assert (code, "does not exist" in err) == (2, True)
