"""verify: tables by other writers, other catalogs, a KMS that fails half-way, the command, and who sees which key."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from jobs.forge import SCHEMA, SPEC, Lake, rows
from jobs.plant import second_kek
from kit.tables import catalogs, corpus
from kit.tables.tables import data_files, local, make, make_open, sealed_catalog
from sealberg.catalogs.sql.catalog import EncryptedSqlCatalog
from sealberg.cli.main import main
from sealberg.errors import ConfigError, KmsUnavailableError, NothingThereError
from sealberg.jobs.checks.files import check_file
from sealberg.jobs.verify import TableCheck, VerifyOptions, plan
from sealberg.keys.kms.memory import MemoryKms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


lake = catalogs.lake  # a fixture: every kind of catalog
NOW = timedelta(0)
# What is wrong with tables of the corpus, by the code of the findings; everything else is sound.
KNOWN = {
    "expired": {"key-unused"},  # Java keeps the keys of expired snapshots
    "long_list": {"key-unused"},  # of a commit of Java that was tried twice
    "old_plaintext_manifests": {"plaintext", "row-ids"},  # Java 1.10 rewrote manifests as plaintext, with new row ids
    "old_lost_vectors": {"no-key"},  # Java 1.11 did not keep the keys of deletion vectors
    "rust": {"no-length"},  # iceberg-rust writes no lengths
}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedSqlCatalog]:
    """All tables of the corpus, where their writers wrote them."""
    folder = tmp_path_factory.mktemp("corpus")
    settings = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}", **corpus.KMS, **corpus.HOME}
    catalog = EncryptedSqlCatalog("java", **settings)
    catalog.create_namespace("db")
    for name, entry in corpus.TABLES.items():
        catalog.register_table(f"db.{name}", corpus.at_home(entry))
    yield catalog
    catalog.close()


@pytest.mark.parametrize("level", ["full", "deep"])
def test_nothing_is_found_in_tables_by_java_but_what_is_known(java: EncryptedSqlCatalog, level: Any) -> None:
    result = plan(every=True, catalog=java, level=level, orphan_age=NOW).execute()
    assert len(result.tables) == len(corpus.TABLES)
    assert result.not_checked == ()
    found: dict[str, set[str]] = {}
    for finding in result.findings:
        found.setdefault(finding.table.removeprefix("db."), set()).add(finding.code)
    assert found == KNOWN


# Older metadata in the place of newer ones are sound by themselves: only a catalog's hash shows what they are.
@pytest.mark.parametrize("name", sorted(corpus.TWINS.keys() - {"metadata_rolled_back"}))
def test_every_tampered_twin_of_the_corpus_is_found(name: str, tmp_path: Path) -> None:
    twin = corpus.TWINS[name]
    try:
        table = corpus.twin_at(tmp_path, twin)
    except sealberg.SealbergError:
        return  # refused before there is a table
    result = plan(table, orphan_age=NOW).execute()
    assert result.findings, str(result)


@pytest.mark.every_catalog
def test_a_table_in_every_catalog_is_sound_and_damage_is_found(lake: catalogs.Lake) -> None:
    catalog = lake.connect()
    table = catalog.create_table("db.t", SCHEMA, properties={"encryption.key-id": "hr"})
    table.append(rows(0, 10))
    table.append(rows(10, 20))
    result = plan("db.t", catalog=lake.connect(), orphan_age=NOW).execute()
    assert result.findings == ()
    assert result.not_checked == ()
    (facts,) = result.tables
    assert facts.vouched_by == ("server" if lake.kind == "rest" else "hash")
    assert facts.metadata_hash is not None
    damaged = next(path for path in lake.files() if path.endswith(".parquet"))
    with open(damaged, "r+b") as file:  # noqa: PTH123
        file.seek(30)
        byte = file.read(1)
        file.seek(30)
        file.write(bytes((byte[0] ^ 1,)))
    (finding,) = plan("db.t", catalog=lake.connect(), orphan_age=NOW).execute().findings
    assert (finding.code, finding.file and finding.file.rpartition("/")[2]) == ("altered", damaged.rpartition("/")[2])


# -- which tables -------------------------------------------------------------------------------


def test_tables_are_chosen_by_name_by_namespace_or_all(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        catalog.create_namespace("ops")
        sealed, open_ = make(catalog, SCHEMA), make_open(catalog, SCHEMA)
        names = {".".join(table.name()) for table in (sealed, open_)}
        assert {step.table for step in plan("hr", catalog=catalog).steps} == names
        assert {step.table for step in plan(every=True, catalog=catalog).steps} == names
        with pytest.raises(NothingThereError, match="no tables: the namespace ops of the catalog"):
            plan("ops", catalog=catalog)
        with pytest.raises(ConfigError, match=r"no table or namespace hr\.nothing in the catalog"):
            plan("hr.nothing", catalog=catalog)
        with pytest.raises(ConfigError, match="no table was named"):
            plan(catalog=catalog)
        with pytest.raises(ConfigError, match="expected one of the two"):
            plan("hr", every=True, catalog=catalog)
        with pytest.raises(ConfigError, match="no table has the snapshot 7"):
            plan("hr", catalog=catalog, snapshot=7)
        result = plan("hr", catalog=catalog).execute()
        assert result.exit_code == 1
        assert [(each.table, each.code) for each in result.findings] == [(".".join(open_.name()), "plaintext")]


def test_one_snapshot_is_checked_alone(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA)
        table.append(rows(0, 10))
        table.append(rows(10, 20))
        first = table.metadata.snapshots[0].snapshot_id
        result = plan(table, snapshot=first).execute()
        (facts,) = result.tables
        assert [each.snapshot_id for each in facts.snapshots if each.checked] == [first]
        assert {kind.kind: kind.files for kind in facts.kinds} == {
            "metadata": 1,
            "manifest-list": 1,
            "manifest": 1,
            "data": 1,
        }


def test_a_file_that_two_manifests_name_is_checked_once(tmp_path: Path) -> None:
    with sealed_catalog(tmp_path) as catalog:
        table = make(catalog, SCHEMA, SPEC)
        table.append(rows(0, 20))
        table.delete("cat == 'x'")  # the manifest is written anew, with the other file as existing
        (left,) = data_files(table)
        result = plan(table, orphan_age=NOW).execute()
        assert (result.findings, {kind.kind: kind.files for kind in result.tables[0].kinds}["data"]) == ((), 2)
        damaged = local(left.file_path)
        damaged.write_bytes(damaged.read_bytes()[:-1])
        assert [finding.code for finding in plan(table, orphan_age=NOW).execute().findings] == ["length"]


def test_a_young_file_that_nothing_names_is_no_orphan_yet(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.forge() as forge:
        copy = forge.root / "data" / "new.parquet"
        copy.write_bytes(forge.parquet().read_bytes())
    with lake.catalog() as catalog:
        result = plan(lake.name, catalog=catalog).execute()
        assert (result.findings, result.tables[0].unreferenced_recent) == ((), 1)
        assert [each.code for each in plan(lake.name, catalog=catalog, orphan_age=NOW).execute().findings] == ["orphan"]
        copy.write_bytes(b"")  # as a writer leaves it that was killed before its first byte
        result = plan(lake.name, catalog=catalog).execute()
        assert (result.findings, result.tables[0].unreferenced_recent) == ((), 1)


# -- keys ---------------------------------------------------------------------------------------


class FailingKms(MemoryKms):
    """Unwraps some keys, then does not answer any more."""

    def __init__(self, left: int) -> None:
        super().__init__({"hr": bytes.fromhex("ab" * 16)})
        self.left = left

    def unwrap(self, wrapped: bytes, master_key_id: str) -> bytes:
        if self.left == 0:
            raise KmsUnavailableError("no answer")
        self.left -= 1
        return super().unwrap(wrapped, master_key_id)


def test_a_kms_that_fails_half_way_leaves_what_was_checked_reported(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.forge() as forge:
        second_kek(forge)
        forge.parquet().write_bytes(b"PARE")
    with lake.catalog() as catalog:
        table: Any = catalog.load_table(lake.name)
        catalog._kms = FailingKms(1)
        result = plan(table, orphan_age=NOW).execute()
    assert (result.verdict, result.exit_code) == ("incomplete", 2)
    assert "length" in {finding.code for finding in result.findings}
    assert [(each.what.split()[0], "no answer" in each.why) for each in result.not_checked] == [("snapshot", True)]
    (facts,) = result.tables
    assert sorted((kek.opened for kek in facts.keks), key=str) == [False, True]
    assert sum(snapshot.checked for snapshot in facts.snapshots) == 3


def test_the_result_has_no_row_and_no_key(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.forge() as forge:
        files = forge.data()
        secrets = [sealberg.KeyMetadata.decode(file.key_metadata or b"").encryption_key for file in files]
        for file in files:
            path = str(file.file_path).removeprefix("file://")
            with open(path, "ab") as stream:  # noqa: PTH123
                stream.write(b"x")
    with lake.catalog() as catalog:
        made = plan(lake.name, catalog=catalog, level="deep", orphan_age=NOW)
        result = made.execute()
    text = repr(made) + str(made) + repr(result) + str(result) + json.dumps(result.to_json())
    assert len(result.findings) == len(files)
    for secret in secrets:
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text
    assert "canary" not in text


def test_a_task_carries_the_key_of_its_own_file_only_and_can_be_sent_to_another_process(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with lake.catalog() as catalog:
        state = plan(lake.name, catalog=catalog).states[0]
        tasks = list(TableCheck(state, VerifyOptions()).tasks())
        keys = [sealberg.KeyMetadata.decode(task.files[0].key_metadata or b"").encryption_key for task in tasks]
        assert len(set(keys)) == len(tasks) == 7
        assert "sqlite:" in str(catalog.properties)
        for task, own in zip(tasks, keys, strict=True):
            sent = pickle.dumps(task)
            assert b"encryption.kms" not in sent
            assert b"sqlite:" not in sent
            assert [key in sent for key in keys] == [key == own for key in keys]
            report = check_file(pickle.loads(sent))
            assert (report.problems, report.failure) == ((), None)
            assert own not in pickle.dumps(report)


# -- the command --------------------------------------------------------------------------------


@pytest.fixture
def prod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """The catalog `prod` of the configuration."""
    lake = Lake(tmp_path)
    settings = {"uri": f"sqlite:///{tmp_path}/sealed/catalog.db", "encryption.kms-type": "memory"}
    settings |= {"encryption.kms.memory.key.hr": "ab" * 16, "warehouse": f"file://{tmp_path}/sealed/wh"}
    lines = [f"    {name}: {value}" for name, value in settings.items()]
    (tmp_path / ".pyiceberg.yaml").write_text("\n".join(["default-catalog: sealed", "catalog:", "  sealed:", *lines]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    return lake


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["verify", *arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_prints_the_plan_the_result_and_the_exit_code(
    prod: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, prod.name, "--threads", "2")
    assert code == 0
    assert out.endswith("verdict: sound: everything was checked, nothing was found\n")
    assert err.split()[:2] == ["table", "action"]
    code, out, _ = run(capsys, "hr", "--json")
    read = json.loads(out)
    assert (code, read["verdict"], read["catalog"], read["level"]) == (0, "sound", "sealed", "full")
    code, out, err = run(capsys, "--all", "--dry-run", "--json")
    assert (code, json.loads(out)["job"], err) == (0, "verify", "")
    with prod.forge() as forge:
        forge.avro().unlink()
    page = prod.folder / "audit.html"
    code, out, err = run(capsys, prod.name, "--fast", "--report", str(page))
    assert code == 1
    assert f"report: {page}" in err
    assert "<html" in page.read_text()
    assert "missing" in page.read_text()
    assert "error missing: hr.t" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name tables or namespaces, or use --all"),
        (("hr", "--fast", "--deep"), "exclude each other"),
        (("hr", "--dry-run", "--report", "audit.html"), "--dry-run has none"),
        (("hr", "--report", "no/such/folder/audit.html"), "the folder does not exist"),
        (("hr", "--threads", "0"), "0 is not in the range"),
        (("hr", "--threads", "2", "--spark", "local[2]"), "exclude each other"),
        (("hr.nothing",), "no table or namespace hr.nothing in the catalog sealed"),
    ],
)
def test_wrong_arguments_are_explained(
    prod: Lake, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = run(capsys, *arguments)
    assert code != 0
    assert message in err


def test_a_table_that_is_named_twice_is_checked_once_and_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    one, other = Lake(tmp_path / "one"), Lake(tmp_path / "other")
    with one.catalog() as first, other.catalog() as second:
        table = first.load_table(one.name)
        result = plan(table, table, one.name, catalog=first).execute()
        assert (result.verdict, len(result.tables), result.totals.files) == ("sound", 1, 21)
        if other.name != one.name:
            second.rename_table(other.name, one.name)
        namesake = second.load_table(one.name)
        with pytest.raises(ConfigError, match=f"two tables of different catalogs have the name {one.name}"):
            plan(table, namesake)


SLOW = """
import sys, time
from sealberg.cli.main import main
from sealberg.jobs import verify

def slow(task, check=verify.check_file):
    print("checking", file=sys.stderr, flush=True)
    time.sleep(0.3)
    return check(task)

verify.check_file = slow
main(["verify", *sys.argv[1:]])
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_ctrl_c_reports_what_was_checked_and_leaves_nothing_behind(
    prod: Lake, capsys: pytest.CaptureFixture[str], threads: str
) -> None:
    page = prod.folder / "audit.html"
    before = sorted(prod.folder.rglob("*"))
    command = [sys.executable, "-c", SLOW, prod.name, "--threads", threads, "--report", str(page)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        seen = 0
        while seen < 4:  # three files are checked, or being checked
            seen += running.stderr.readline().startswith("checking")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"not checked: {prod.name}: the rest of the table: verify was stopped" in out
    assert out.endswith("verdict: incomplete: stopped before everything was checked; no findings so far\n")
    checked = re.search(r"data +(\d) of (\d) files", out)
    assert checked is not None
    assert 1 <= int(checked[1]) < 7
    assert "Traceback" not in err
    assert "no report: verify was stopped" in err
    assert sorted(prod.folder.rglob("*")) == before
    assert run(capsys, prod.name)[0] == 0
