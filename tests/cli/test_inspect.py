"""`sealberg inspect FILE` on files of every kind, whole and broken."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kit.tables import golden
from sealberg.cli.main import main
from sealberg.files.seal import seal_bytes
from sealberg.format.ags1 import BLOCK_SIZE

if TYPE_CHECKING:
    from pathlib import Path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def inspect_json(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, dict[str, Any], str]:
    code, out, err = run(capsys, "inspect", str(path), "--json")
    return code, json.loads(out), err


def file_of(kind: str) -> bytes:
    """A whole file of each kind; the encrypted ones are Java's."""
    if kind == "parquet":
        buffer = io.BytesIO()
        pq.write_table(pa.table({"a": [1]}), buffer)
        return buffer.getvalue()
    if kind == "parquet-encrypted":
        return next((golden.root() / "wh/db.db/basic128/data").glob("*.parquet")).read_bytes()
    if kind == "ags1":
        return next((golden.root() / "wh/db.db/basic128/metadata").glob("snap-*.avro")).read_bytes()
    if kind == "puffin":
        return b"PFA1" + b"PFA1{}" + (2).to_bytes(4, "little") + bytes(4) + b"PFA1"
    if kind == "avro":
        return b"Obj\x01" + bytes(20)
    assert kind == "age"
    return b"age-encryption.org/v1\n-> scrypt"


@pytest.mark.parametrize("kind", ["ags1", "parquet-encrypted", "parquet", "avro", "puffin", "age"])
def test_each_kind_is_known_by_its_bytes(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "no-telling-name"
    path.write_bytes(file_of(kind))
    code, found, err = inspect_json(capsys, path)
    assert (code, err) == (1 if kind in ("parquet", "avro", "puffin") else 0, "")
    assert [each["code"] for each in found["findings"]] == (["plaintext"] if code else [])
    assert found["kind"] == kind
    assert found["stored_length"] == path.stat().st_size
    assert found["encrypted"] is (kind in ("ags1", "parquet-encrypted", "age"))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"ORC" + bytes(50), "orc"),
        (b'{"a": 1}', "json"),
        (b'{"a": 1}\n{"a": 2}\n', "json"),
        (b"[1, 2]", "json"),
        (gzip.compress(b'{"a": 1}'), "json"),
        (b"id,name\n1,Ann\n", "csv"),
        (b"\xef\xbb\xbfid;name\r\n1;\xc3\x84nne\r\n", "csv"),
        (b"id\tname\n" + b"1\tx\xc3\xa4\n" * 900, "csv"),
        (gzip.compress(b"id,name\n1,Ann\n"), "csv"),
        (b"words\n", "text"),
        (("ä" * 4096).encode(), "text"),
    ],
)
def test_what_anybody_can_read_is_plaintext(
    content: bytes, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "no-telling-name"
    path.write_bytes(content)
    code, found, _ = inspect_json(capsys, path)
    assert (code, found["kind"], found["encrypted"]) == (1, kind, False)
    assert [each["code"] for each in found["findings"]] == ["plaintext"]


def test_an_ags1_file_tells_its_blocks_and_both_lengths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f"
    path.write_bytes(seal_bytes(bytes(2 * BLOCK_SIZE + 5))[0])
    code, found, _ = inspect_json(capsys, path)
    assert code == 0
    assert found["facts"] == {"block_count": 3, "plain_length": 2 * BLOCK_SIZE + 5, "fits_layout": True}
    code, out, _ = run(capsys, "inspect", str(path))
    assert "3 of up to 1 MiB; the length fits the layout" in out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"AGS1", "AGS1 header is truncated: found 4 bytes, expected 8"),
        (b"AGS1\0\0\x10\0", "found 8 bytes, expected at least 36"),
        (b"AGS1\0\0\x20\0" + bytes(28), "block size 2097152"),
        (seal_bytes(bytes(BLOCK_SIZE))[0] + b"\0", "expected more than 28 (a nonce and a tag)"),
        (seal_bytes(bytes(BLOCK_SIZE))[0] + bytes(28), "ends in an empty block 1"),
        (file_of("parquet-encrypted")[:-1], "does not end in PARE"),
        (file_of("parquet")[:-1], "does not end in PAR1"),
        (b"PAR1" + b"\xff\xff\xff\x7fPAR1", "does not fit"),
        (file_of("puffin")[:-1], "does not end in PFA1"),
        (b"", "it is empty"),
        (b"\x7fELF", "it begins with 7f 45 4c 46"),
        (b'{"format-version": 3,', "does not parse"),
        (b'{"format-version": 3, "encryption-keys": [{}]}', "missing string: key-id"),
        (gzip.compress(b'{"format-version": 3}')[:-9], "truncated"),
        (b"\x1f\x8b\x07\x00garbage", "does not decompress"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_broken_file_is_one_clear_line_and_exit_code_1(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    code, out, err = run(capsys, "inspect", str(path))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert words in err
    code, found, _ = inspect_json(capsys, path)
    assert code == 1
    assert words in found["problem"]


@pytest.mark.parametrize("table", golden.TABLES)
def test_metadata_of_java_show_a_tree_without_problems(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    newest = sorted((golden.root() / "wh/db.db" / table / "metadata").glob("*metadata.json"))[-1]
    code, found, _ = inspect_json(capsys, newest)
    assert code == 0
    assert found["kind"] == "metadata"
    tree = found["key_tree"]
    assert tree["problems"] == []
    assert [master["key_id"] for master in tree["master_keys"]] == ["keyA"]
    named = [s for kek in tree["master_keys"][0]["keks"] for key in kek["list_keys"] for s in key["snapshots"]]
    assert len(named) == found["facts"]["snapshots"] > 0


def test_the_tree_of_a_rotated_table_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    newest = sorted((golden.root() / "wh/db.db/rotated/metadata").glob("*metadata.json"))[-1]
    _, out, _ = run(capsys, "inspect", str(newest))
    assert "master key keyA (in the KMS)\n├─ KEK " in out
    assert out.count("KEK ") == 2
    assert out.count("(current)") == 1


def test_broken_ways_to_a_key_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metadata = golden.metadata("basic128")
    first, second, third = metadata["snapshots"][:3]
    kek_id = metadata["encryption-keys"][0]["key-id"]
    del first["key-id"]
    second["key-id"] = "gone"
    third["key-id"] = kek_id
    path = tmp_path / "m"
    path.write_text(json.dumps(metadata))
    problems = inspect_json(capsys, path)[1]["key_tree"]["problems"]
    assert any("has no key-id" in problem for problem in problems)
    assert any("gone, not found in encryption-keys" in problem for problem in problems)
    assert any("names the KEK" in problem for problem in problems)


def test_plaintext_statistics_of_an_encrypted_table_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = golden.metadata("basic128")
    metadata["statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://lake/stats.puffin"}]
    metadata["partition-statistics"] = [{"snapshot-id": 1, "statistics-path": "s3://lake/parts.parquet"}]
    path = tmp_path / "m"
    path.write_text(json.dumps(metadata))
    code, out, _ = run(capsys, "inspect", str(path))
    assert code == 1
    assert "! plaintext: s3://lake/stats.puffin: " in out
    assert "! plaintext: s3://lake/parts.parquet: " in out


def test_metadata_of_a_plain_table_have_no_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m"
    path.write_text('{"format-version": 2, "snapshots": [{"snapshot-id": 1}]}')
    code, found, _ = inspect_json(capsys, path)
    assert (code, found["key_tree"]) == (1, None)
    assert [each["message"] for each in found["findings"]] == ["the table is not encrypted"]


def test_a_missing_file_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "inspect", "/no/such/file")
    assert code == 2
    assert "does not exist" in err


def test_output_into_a_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_text(json.dumps(golden.metadata("partitioned")))
    shell = f"{sys.executable} -m sealberg.cli.main inspect {path} --json | head -c 1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{", "")
