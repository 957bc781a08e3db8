"""What a task takes along to another process: how to reach the storage, and nothing else of the catalog."""

from __future__ import annotations

import pickle
import time
from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from sealberg.errors import StorageAccessError, UnsupportedError
from sealberg.files.confined_io import ConfinedFileIO
from sealberg.files.vended_io import Lease, VendedFileIO
from sealberg.jobs.task_io import storage_only

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

CATALOG = {"uri": "https://catalog", "token": "of-the-catalog", "encryption.kms.vault.token": "of-the-kms"}


def lease(token: str, *, ends_in: float | None) -> Lease:
    now = time.time()
    properties = {**CATALOG, "s3.session-token": token}
    return Lease({"": PyArrowFileIO(properties)}, now - 100, None if ends_in is None else now + ends_in)


def sent(io: FileIO) -> tuple[FileIO, bytes]:
    """The FileIO as another process has it, and the bytes that went there."""
    pickled = pickle.dumps(storage_only(io))
    return pickle.loads(pickled), pickled


def file(folder: Path) -> str:
    (folder / "a").write_bytes(b"content")
    return f"file://{folder}/a"


@pytest.mark.parametrize("io", [PyArrowFileIO, FsspecFileIO])
def test_the_secrets_of_the_catalog_and_the_kms_stay_at_home(io: type[FileIO], tmp_path: Path) -> None:
    there, pickled = sent(ConfinedFileIO(io({**CATALOG, "s3.region": "r"}), {"file"}))
    assert not [secret for secret in CATALOG.values() if secret.encode() in pickled]
    assert there.properties == {"s3.region": "r"}
    assert there.new_input(file(tmp_path)).open().read() == b"content"


def test_lent_credentials_are_sent_as_they_are_now_and_renewed_here_before_they_end(tmp_path: Path) -> None:
    vended = VendedFileIO(lease("first", ends_in=5), lambda: lease("second", ends_in=1000))
    there, pickled = sent(ConfinedFileIO(vended, {"file"}))
    assert b"second" in pickled
    assert b"first" not in pickled
    assert b"of-the-" not in pickled
    assert there.new_input(file(tmp_path)).open().read() == b"content"


def test_a_file_is_not_opened_with_lent_credentials_that_have_ended(tmp_path: Path) -> None:
    vended = VendedFileIO(lease("first", ends_in=0.2), lambda: lease("second", ends_in=0.2))
    there, _ = sent(vended)
    time.sleep(0.25)
    location = file(tmp_path)
    with pytest.raises(StorageAccessError, match=r"ended at 20.*only the process that started the job"):
        there.new_input(location)
    with pytest.raises(StorageAccessError, match="ended at"):
        there.delete(location)
    assert (tmp_path / "a").exists()


def test_a_storage_whose_requests_the_server_signs_is_for_threads_only(tmp_path: Path) -> None:
    io = FsspecFileIO({**CATALOG, "s3.signer": "S3V4RestSigner"})
    with pytest.raises(UnsupportedError, match="leave --spark out"):
        pickle.dumps(storage_only(io))
    assert storage_only(io).new_input(file(tmp_path)).open().read() == b"content"
