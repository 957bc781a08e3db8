"""Error reporters record the variables of frames: no frame that an error of ours leaves has a key in it."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sealberg
from kit.programs.spark import MASTER_KEY, properties_of
from sealberg.errors import SealbergError
from sealberg.format.key_frames import keyless
from sealberg.format.key_metadata import KeyMetadata
from sealberg.jobs import compact, rekey, rewrite_manifests
from sealberg.keys.keyring import Keyring
from sealberg.keys.kms.local import LocalKms
from sealberg.metadata import decode_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__)


def forms(key: bytes) -> set[str]:
    return {key.hex(), base64.b64encode(key).decode().rstrip("="), repr(key)[2:-1], str(list(key))[1:-1]}


def shown(error: BaseException, secrets: dict[str, bytes]) -> list[str]:
    """The variables of all frames, of the error and of those that it came from, that show a secret."""
    found, waiting, seen = [], [error], set()
    while waiting:
        each = waiting.pop()
        seen.add(id(each))
        trace = each.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            for name, value in frame.f_locals.items() if Path(frame.f_code.co_filename) != HERE else ():
                raw = bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""
                text = repr(value)
                hits = [what for what, key in secrets.items() if key in raw or any(one in text for one in forms(key))]
                found += [f"{frame.f_code.co_name}.{name}: {what}" for what in hits]
            trace = trace.tb_next
        waiting += [one for one in (each.__cause__, each.__context__) if one is not None and id(one) not in seen]
    return found


@pytest.fixture
def table(tmp_path: Path) -> Any:
    catalog: Any = sealberg.load_catalog("prod", **properties_of(tmp_path))
    catalog.create_namespace("hr")
    rows = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{at}" for at in range(20)]})
    properties = {"encryption.key-id": "hr", "write.delete.mode": "merge-on-read"}
    made = catalog.create_table("hr.t", rows.schema, properties=properties)
    made.append(rows)
    made.delete("id = 3")
    with made.transaction() as change:
        change.set_properties({"write.format.default": "avro"})
    made.append(rows)
    return made


@pytest.fixture
def secrets(table: Any) -> dict[str, bytes]:
    found = {"master key": bytes.fromhex(MASTER_KEY)}
    for snapshot in table.metadata.snapshots:
        found[f"list {snapshot.snapshot_id}"] = table.io.open_list_key(snapshot.key_id).encryption_key
        for manifest in snapshot.manifests(table.io):
            found[str(manifest.manifest_path)] = KeyMetadata.decode(manifest.key_metadata).encryption_key
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                found[str(file.file_path)] = KeyMetadata.decode(file.key_metadata).encryption_key
    [kek] = [key for key in table.metadata.encryption_keys if key.timestamp]
    return found | {"KEK": table.encryption._unwrap(kek)}


def altered(path: Path) -> Iterator[None]:
    good = path.read_bytes()
    for at in (0, 5, len(good) // 2, len(good) - 1):
        changed = bytearray(good)
        changed[at] ^= 1
        path.write_bytes(changed)
        decode_cache.clear()
        yield
    path.write_bytes(good)


def test_altered_files_of_every_kind(table: Any, secrets: dict[str, bytes], tmp_path: Path) -> None:
    current = table.current_snapshot()
    named = [current.manifest_list, *(str(each.manifest_path) for each in current.manifests(table.io))]
    named += [str(path) for path in (tmp_path / "wh").rglob("data/**/*.*")]
    assert {Path(name).suffix for name in named} >= {".avro", ".parquet", ".puffin"}
    for name in named:
        for _ in altered(Path(name.removeprefix("file://"))):
            catalog = sealberg.load_catalog("prod", **properties_of(tmp_path))
            with pytest.raises(SealbergError) as caught:
                catalog.load_table("hr.t").scan().to_arrow()
            assert shown(caught.value, secrets) == []


def test_an_altered_ring(table: Any, secrets: dict[str, bytes]) -> None:
    raw = table.metadata.encryption_keys.to_json()
    [first, *_] = [entry for entry in raw if "properties" not in entry]
    sealed = bytearray(base64.b64decode(first["encrypted-key-metadata"]))
    sealed[-1] ^= 1
    first["encrypted-key-metadata"] = base64.b64encode(sealed).decode()
    with pytest.raises(SealbergError) as caught:
        table.encryption.open_list_key(Keyring.from_json(raw), first["key-id"])
    assert shown(caught.value, secrets) == []


@pytest.mark.parametrize("verb", ["wrap", "unwrap"])
def test_a_kms_that_fails_with_the_key_in_its_hands(
    table: Any, secrets: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A client of anybody's own."""
    kept = LocalKms.unwrap

    def fails(self: LocalKms, given: Any, master_key_id: str) -> bytes:
        held = secrets["new KEK"] = bytes(given if verb == "wrap" else kept(self, given, master_key_id))
        raise RuntimeError(f"no {len(held)}")

    monkeypatch.setattr(LocalKms, verb, fails)
    with pytest.raises(Exception, match="no 16") as caught:
        table.encryption.new_kek()
    assert len(secrets["new KEK"]) == 16
    assert shown(caught.value, secrets) == []
    frames = caught.traceback
    assert "fails" not in {entry.name for entry in frames}


def test_what_the_caller_handles_keeps_its_frames() -> None:
    @keyless
    def fails() -> None:
        raise ValueError("inner")

    try:
        raise KeyError("outer")
    except KeyError:
        with pytest.raises(ValueError, match="inner") as caught:
            fails()
        outer = sys.exc_info()[1]
        assert outer is not None
        assert caught.value.__context__ is outer
        assert outer.__traceback__ is not None


def changes(table: Any) -> dict[str, Callable[[], object]]:
    rows, name = table.scan().to_arrow().slice(0, 2), ("hr", "t")
    return {
        "delete": lambda: table.catalog.load_table(name).delete("id = 7"),
        "overwrite": lambda: table.catalog.load_table(name).overwrite(rows, "id < 9"),
        "upsert": lambda: table.catalog.load_table(name).upsert(rows.set_column(1, "name", [["x", "y"]]), ["id"]),
        "rekey": lambda: rekey.plan(name, catalog=table.catalog).execute(),
        "compact": lambda: compact.plan(name, catalog=table.catalog, options={"rewrite-all": "true"}).execute(),
        "rewrite_manifests": lambda: rewrite_manifests.plan(name, catalog=table.catalog).execute(),
    }


def refused(act: Callable[[], object]) -> SealbergError | None:
    try:
        act()
    except SealbergError as error:
        return error
    return None


CHANGES = ("delete", "overwrite", "upsert", "rekey", "compact", "rewrite_manifests")


@pytest.mark.parametrize("what", CHANGES)
def test_altered_files_of_every_kind_below_a_change(
    table: Any, secrets: dict[str, bytes], tmp_path: Path, what: str
) -> None:
    act, seen = changes(table)[what], 0
    current = table.current_snapshot()
    named = [current.manifest_list, *(str(each.manifest_path) for each in current.manifests(table.io))]
    named += [str(path) for path in (tmp_path / "wh").rglob("data/**/*.*")]
    for name in named:
        path = Path(name.removeprefix("file://"))
        good = path.read_bytes()
        changed = bytearray(good)
        changed[len(good) // 2] ^= 1
        path.write_bytes(changed)
        decode_cache.clear()
        error = refused(act)
        if error is not None:
            seen += 1
            assert shown(error, secrets) == []
        path.write_bytes(good)
    assert seen > 0
