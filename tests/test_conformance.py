"""The runner of the vectors finds what a program does wrong; sealberg and Iceberg Java do what the page says."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conformance import operations
from conformance.__main__ import main, read_known, report, run
from conformance.adapters.sealberg_python import OPERATIONS
from conformance.programs import DONE, NOT_SUPPORTED, REFUSED, OneProcess, ProcessEach
from vectors import cases
from vectors.recipe import gcm

from kit.programs.commands import compile_java, jdk
from kit.programs.maven import bring
from sealberg.errors import SealbergError
from test_docs import blocks_of, run_console

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.__main__ import Outcome

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "conformance" / "README.md"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SMALL = [each for each in operations.every_operation() if "257" not in each.name]


class Ours:
    """sealberg in this process, and what somebody does to its files after it has made them."""

    def __init__(self, spoil: Callable[[Path], None] | None = None) -> None:
        self._spoil = spoil

    def run(self, operation: str, folder: Path) -> int:
        try:
            OPERATIONS[operation](folder)
        except SealbergError:
            return REFUSED
        if self._spoil:
            self._spoil(folder)
        return DONE

    def close(self) -> None:
        pass


class Always:
    """A program that gives one answer and makes nothing."""

    def __init__(self, code: int) -> None:
        self._code = code

    def run(self, operation: str, folder: Path) -> int:
        return self._code

    def close(self) -> None:
        pass


def of(name: str) -> list[operations.Operation]:
    return [each for each in operations.every_operation() if each.name == name]


def differences(found: list[Outcome]) -> set[str]:
    return {outcome.name for outcome in found if outcome.difference is not None}


@pytest.mark.slow  # 257 blocks are read and written
@pytest.mark.timeout(1200)
def test_sealberg_does_all_that_the_vectors_say(capsys: pytest.CaptureFixture[str]) -> None:
    adapter = [sys.executable, "-m", "conformance.adapters.sealberg_python"]
    assert main(["--one-process", "--", *adapter]) == 0
    counts = counts_of(capsys.readouterr().out)
    assert counts == (len(operations.every_operation()), 0, 0)
    assert f"| {counts[0]} | none |" in README.read_text(encoding="utf-8")


@pytest.mark.slow  # a JVM, and 257 blocks
@pytest.mark.timeout(1200)
def test_iceberg_java_does_what_the_list_of_its_differences_says(capsys: pytest.CaptureFixture[str]) -> None:
    pyspark = pytest.importorskip("pyspark", reason="PySpark brings slf4j, which Iceberg needs")
    (logging,) = Path(pyspark.__file__).parent.glob("jars/slf4j-api-*.jar")
    (iceberg,) = bring(ICEBERG)
    source = ROOT / "conformance" / "adapters" / "iceberg_java" / "IcebergJava.java"
    classes = compile_java(source, classpath=str(iceberg))
    command = [jdk().java, "-Xmx256m", "-cp", f"{classes}:{iceberg}:{logging}"]
    known = ROOT / "conformance" / "known" / "iceberg-java-1.12.0.txt"
    program = "org.apache.iceberg.encryption.IcebergJava"
    done = main(["--one-process", "--known", str(known), "--", *map(str, command), program])
    said = capsys.readouterr().out
    assert done == 0, said
    good, other, left = counts_of(said)
    assert f"| {good}, and {left} not supported | [{other}](known/" in README.read_text(encoding="utf-8")


def counts_of(said: str) -> tuple[int, int, int]:
    """As expected, different, not supported."""
    rows = re.findall(r"^\w+ +(\d+) +(\d+) +(\d+)$", said, re.M)
    good, other, left = (sum(map(int, column)) for column in zip(*rows, strict=True))
    return good, other, left


def test_pyiceberg_has_no_encryption_to_run() -> None:
    """When this fails, write an adapter for it: PyIceberg, or iceberg-rust through pyiceberg-core, can do more now."""
    assert importlib.util.find_spec("pyiceberg.encryption") is None
    core = importlib.import_module("pyiceberg_core")
    modules = [core]
    modules += [each for module in modules for _, each in inspect.getmembers(module, inspect.ismodule)]
    names = {name for module in modules for name in dir(module)}
    assert "read_manifest_list" in names  # of what iceberg-rust does for Python, this is the nearest
    assert {name for name in names if re.search("crypt|cipher|key|ags1|gcm", name, re.I)} == set()


def test_the_page_shows_what_the_runner_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = [block for block in blocks_of(README.read_text(encoding="utf-8")) if block.language == "console"]
    assert blocks
    for block in blocks:
        run_console(README, block, {})


def test_the_runner_needs_nothing_of_sealberg() -> None:
    missing = ("sealberg", "pyiceberg", "pyarrow", "fastavro", "click")
    without = f"import sys; sys.modules.update(dict.fromkeys({missing}))"
    code = f"{without}; from conformance.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "--only", "chain_good", "--", "false"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert "DIFFERENT  find keys/chain_good: exit code 1" in done.stdout


# -- what it finds ------------------------------------------------------------------------------


def test_a_program_that_takes_everything_does_nothing_right(tmp_path: Path) -> None:
    assert differences(run(SMALL, Always(DONE), tmp_path)) == {each.name for each in SMALL}


def test_a_program_that_refuses_everything_is_right_where_it_must_refuse(tmp_path: Path) -> None:
    assert differences(run(SMALL, Always(REFUSED), tmp_path)) == {each.name for each in SMALL if each.good}


def test_what_is_not_supported_is_counted_and_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(SMALL, Always(NOT_SUPPORTED), tmp_path)
    assert not differences(found)
    assert not any(outcome.tried for outcome in found)
    assert main(["--only", "chain_good", "--", "sh", "-c", f"exit {NOT_SUPPORTED}"]) == 1
    assert "supports none of these operations" in capsys.readouterr().out


def change(name: str, how: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_bytes(how(path.read_bytes() if path.exists() else b""))

    return spoil


def with_the_nonce_of_zeros(folder: Path) -> None:
    key, aad_prefix = (folder / "key").read_bytes(), (folder / "aad-prefix").read_bytes()
    sealed = gcm(key, bytes(12), (folder / "plaintext").read_bytes(), aad_prefix + bytes(4))
    (folder / "stream").write_bytes(operations.HEADER + sealed)


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("open ags1/hello", change("plaintext", lambda b: b"j" + b[1:]), "other bytes than were sealed"),
        ("open ags1/hello", change("plaintext", lambda b: b + b"o"), "or more of them"),
        ("open ags1/hello", change("plaintext", lambda b: b[:-1]), "ends after 4 of 5 bytes"),
        ("open ags1/java_avro", change("plaintext", lambda b: b[:-1]), "another SHA-256"),
        ("open ags1/empty", lambda folder: (folder / "plaintext").unlink(), "no file plaintext was made"),
        ("seal ags1/hello", change("length", lambda b: b + b"0"), "the stream has 41 bytes, and `length` says 410"),
        ("seal ags1/hello", change("length", lambda _: b"many"), "length is no number: 'many'"),
        ("seal ags1/hello", change("stream", lambda b: b"AGS2" + b[4:]), "begins with 41475332"),
        ("seal ags1/hello", change("stream", lambda b: b[:-1] + bytes([b[-1] ^ 1])), "block 0 does not open"),
        ("decode key_metadata/key_16", change("encryption-key", lambda b: b[::-1]), "encryption-key is 3534"),
        ("decode key_metadata/key_16_no_aad", change("aad-prefix", lambda b: b), "aad-prefix is no bytes, not no file"),
        ("decode key_metadata/aad_empty", lambda folder: (folder / "aad-prefix").unlink(), "is no file, not no bytes"),
        ("decode key_metadata/key_16_no_length", change("file-length", lambda _: b"0"), "file-length is 0, not None"),
        ("encode key_metadata/key_16", change("blob", lambda b: b + b"\0"), "blob is 0120"),
        ("find keys/chain_good", change("key-metadata", lambda b: b[1:]), "key-metadata is 2030"),
    ],
)
def test_wrong_bytes_are_found(tmp_path: Path, name: str, spoil: Callable[[Path], None], said: str) -> None:
    assert run(of(name), Ours(), tmp_path)[0].difference is None
    (outcome,) = run(of(name), Ours(spoil), tmp_path)
    assert outcome.difference is not None
    assert said in outcome.difference


def test_a_stream_that_goes_on_is_found(tmp_path: Path) -> None:
    def longer(folder: Path) -> None:
        change("stream", lambda b: b + b"\0")(folder)
        change("length", lambda _: b"42")(folder)

    (outcome,) = run(of("seal ags1/hello"), Ours(longer), tmp_path)
    assert "the stream goes on after its last block" in str(outcome.difference)


def test_a_nonce_that_comes_twice_is_found_in_another_stream(tmp_path: Path) -> None:
    sealed = [each for each in operations.every_operation() if each.name in ("seal ags1/hello", "seal ags1/one_byte")]
    assert not differences(run(sealed, Ours(), tmp_path))
    first, second = run(sealed, Ours(with_the_nonce_of_zeros), tmp_path)
    assert first.difference is None
    assert "block 0 has a nonce that was there before" in str(second.difference)


def test_a_byte_handed_out_too_early_is_found(tmp_path: Path) -> None:
    class Hasty(Ours):
        def run(self, operation: str, folder: Path) -> int:
            (folder / "plaintext").write_bytes(b"h")
            return REFUSED

    assert run(of("open ags1/tag_flipped"), Always(REFUSED), tmp_path)[0].difference is None
    assert "from byte 0 on" in str(run(of("open ags1/tag_flipped"), Hasty(), tmp_path)[0].difference)


# -- programs -----------------------------------------------------------------------------------

PICKY = """
import sys
for line in sys.stdin:
    operation, folder = line.split()
    if "cycle" in folder:
        sys.exit("no cycles, please")
    if "strangers" in folder:
        print("what?", flush=True)
    if "points" in folder:
        import time; time.sleep(60)
    print(10, flush=True)
"""


def test_one_process_that_ends_is_started_again(tmp_path: Path) -> None:
    program = OneProcess([sys.executable, "-c", PICKY], timeout=60, log=tmp_path / "stderr")
    names = ["find keys/cycle", "find keys/id_twice", "find keys/strangers", "find keys/kek_unknown"]
    found = run([each for name in names for each in of(name)], program, tmp_path)
    program.close()
    assert [outcome.difference is None for outcome in found] == [False, True, False, True]
    assert str(found[0].difference).startswith("no answer: it ended with 1: no cycles, please")
    assert str(found[2].difference).startswith("the answer is b'what?', not a number")


def test_a_program_without_an_answer_in_time_is_ended(tmp_path: Path) -> None:
    program = OneProcess([sys.executable, "-c", PICKY], timeout=2, log=tmp_path / "stderr")
    (outcome,) = run(of("find keys/points_at_kek"), program, tmp_path)
    program.close()
    assert str(outcome.difference).startswith("no answer: it ended with -9")
    (outcome,) = run(of("find keys/points_at_kek"), ProcessEach(["sh", "-c", "exec sleep 60"], timeout=0.2), tmp_path)
    assert str(outcome.difference).startswith("no answer in 0.2 seconds")


def test_a_crash_is_no_refusal(tmp_path: Path) -> None:
    program = ProcessEach([sys.executable, "-c", "raise SystemError('out of order')"], timeout=60)
    (outcome,) = run(of("find keys/cycle"), program, tmp_path)
    assert str(outcome.difference).startswith("exit code 1: SystemError: out of order")


# -- known differences --------------------------------------------------------------------------


def test_known_differences_are_exact(tmp_path: Path) -> None:
    found = run([*of("find keys/cycle"), *of("find keys/chain_good")], Always(REFUSED), tmp_path)
    assert report(found, {})[1] is False
    assert report(found, {"find keys/chain_good": "it refuses all"})[1] is True
    lines, good = report(found, {"find keys/chain_good": "it refuses all", "find keys/cycle": "?"})
    assert not good
    assert "STALE      find keys/cycle: is known as different, and is not; remove the line" in lines
    lines, good = report(found, {"find keys/chain_good": "it refuses all", "find keys/circle": "?"})
    assert not good
    assert "STALE      find keys/circle: is known as different, and is no operation of this run" in lines


def test_a_known_difference_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# all\n\nfind keys/cycle: because\n")
    assert read_known(path) == {"find keys/cycle": "because"}
    path.write_text("find keys/cycle\n")
    with pytest.raises(SystemExit, match="OPERATION VECTOR: REASON"):
        read_known(path)


def test_the_lists_of_known_differences_name_operations_and_the_page_counts_them() -> None:
    names = {each.name for each in operations.every_operation()}
    lists = sorted((ROOT / "conformance" / "known").iterdir())
    assert len(lists) >= 2
    for path in lists:
        known = read_known(path)
        assert set(known) <= names, path
        assert f"[{len(known)}](known/{path.name})" in README.read_text(encoding="utf-8")


# -- the appendix -------------------------------------------------------------------------------


def test_examples_of_the_appendix_are_vectors() -> None:
    page = (ROOT / "docs" / "formats" / "appendix.md").read_text(encoding="utf-8")
    blobs = {case.name: case for case in cases.blobs()}
    streams = {case.name: b"".join(case.stored()).hex() for case in cases.streams() if "257" not in case.name}
    rows = {cells[2]: cells[:2] for cells in re.findall(r"^\| (\w+) \| (\w+) \| `([0-9a-f]+)` \|$", page, re.M)}
    assert rows == {
        blobs["key_metadata/known_no_length"].blob.hex(): ("yes", "null"),
        blobs["key_metadata/known_4321"].blob.hex(): ("yes", "4321"),
        blobs["key_metadata/key_16_key_only"].blob.hex(): ("null", "null"),
    }
    assert dict(re.findall(r"^\| `?(\w+)`? \| `(41475331[0-9a-f]+)` \|$", page, re.M)) == {
        "none": streams["ags1/empty"],
        "hello": streams["ags1/hello"],
    }
    (chain,) = (case for case in cases.chains() if case.name == "keys/chain_good")
    schema, entries = (json.loads(block.body) for block in blocks_of(page) if block.language == "json")
    assert entries == json.loads(chain.entries)
    assert chain.snapshot_key_id in page
    assert chain.key_metadata == blobs["key_metadata/known_4321"].blob
    assert [field["name"] for field in schema["fields"]] == ["encryption_key", "aad_prefix", "file_length"]


def test_the_appendix_says_nothing_of_us() -> None:
    page = (ROOT / "docs" / "formats" / "appendix.md").read_text(encoding="utf-8")
    _, _, appendix = page.partition("\n---\n")
    assert len(appendix.splitlines()) > 100
    assert "sealberg" not in appendix.lower()
    assert "](" not in appendix  # a link would lead nowhere in the specification
