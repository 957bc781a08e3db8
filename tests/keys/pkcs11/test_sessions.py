"""Lost logins, sessions and tokens; threads, forked children and other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pkcs11
import pytest

from kit.servers.kms import KEY
from kit.servers.pkcs11_kms import HURRY
from kit.servers.softhsm import SoftHsm, softhsm
from sealberg.errors import KmsUnavailableError
from sealberg.keys.kms import pkcs11 as ours
from sealberg.keys.kms.pkcs11 import Pkcs11Kms

if TYPE_CHECKING:
    from pathlib import Path


def test_closing_one_client_leaves_the_others_logged_in(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    other = Pkcs11Kms.from_properties(hsm.properties)
    wrapped = other.wrap(KEY, "hr")
    assert client.unwrap(wrapped, "hr") == KEY
    other.close()
    assert client.unwrap(wrapped, "hr") == KEY


def test_the_last_client_that_closes_logs_out(hsm: SoftHsm) -> None:
    clients = [Pkcs11Kms.from_properties(hsm.properties) for _ in range(2)]
    for client in clients:
        client.wrap(KEY, "hr")
    token = clients[0].connection.token
    for client in clients:
        client.close()
    with token.open() as session:
        assert list(session.get_objects({pkcs11.Attribute.LABEL: "hr"})) == []


def test_a_login_ended_by_other_code_is_renewed(client: Pkcs11Kms) -> None:
    wrapped = client.wrap(KEY, "hr")
    client.connection.session.close()  # C_Logout is for the whole process
    assert client.unwrap(wrapped, "hr") == KEY


def test_a_login_made_by_other_code_is_shared(hsm: SoftHsm) -> None:
    with hsm.owner(), Pkcs11Kms.from_properties(hsm.properties) as client:
        assert client.unwrap(client.wrap(KEY, "hr"), "hr") == KEY


def test_a_library_restarted_by_other_code_is_outlived(client: Pkcs11Kms) -> None:
    wrapped = client.wrap(KEY, "hr")
    pkcs11.lib(os.path.realpath(client.settings.module)).reinitialize()
    assert client.unwrap(wrapped, "hr") == KEY


def test_a_removed_token_is_unavailable_and_serves_when_it_is_back(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    with Pkcs11Kms.from_properties(hsm.properties | HURRY) as other:
        wrapped = client.wrap(KEY, "hr")
        assert other.unwrap(wrapped, "hr") == KEY
        with hsm.removed():
            for lost in (client, other):
                with pytest.raises(KmsUnavailableError, match="attempts 2"):
                    lost.unwrap(wrapped, "hr")
        assert client.unwrap(wrapped, "hr") == KEY
        assert other.unwrap(wrapped, "hr") == KEY


def test_a_sick_token_is_not_taken_for_a_wrong_key(client: Pkcs11Kms, monkeypatch: pytest.MonkeyPatch) -> None:
    """SoftHSM says the same of a bad tag and of everything else."""
    wrapped = client.wrap(KEY, "hr")

    def fail(*_: object) -> bytes:
        raise pkcs11.GeneralError

    monkeypatch.setattr(ours, "_open", fail)
    with pytest.raises(KmsUnavailableError, match="GeneralError"):
        client.unwrap(wrapped, "hr")
    monkeypatch.undo()
    assert client.unwrap(wrapped, "hr") == KEY


def test_threads_share_the_token(hsm: SoftHsm, client: Pkcs11Kms) -> None:
    other = Pkcs11Kms.from_properties(hsm.properties)
    failures: list[Exception] = []

    def work(mine: Pkcs11Kms) -> None:
        try:
            for _ in range(20):
                assert mine.unwrap(mine.wrap(KEY, "hr"), "hr") == KEY
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in (client, other) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert failures == []


def _in_child(client: Pkcs11Kms, wrapped: bytes, parents: Any, answer: Any) -> None:
    try:
        opened, made = client.unwrap(wrapped, "hr"), client.wrap(KEY, "hr")
        with pytest.raises(pkcs11.SessionHandleInvalid):
            parents.generate_random(64)  # else the library was not initialised again
        answer.send((opened, made))
    except BaseException as error:
        answer.send(RuntimeError(repr(error)))
    answer.close()
    os._exit(0)  # the child's copy of the test run must not go on, nor clean up


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("reset_on_fork", [False, True], ids=["unaware library", "library that resets itself"])
def test_a_forked_child_logs_in_by_itself_and_leaves_its_parent_logged_in(tmp_path: Path, reset_on_fork: bool) -> None:
    with softhsm(tmp_path, reset_on_fork=reset_on_fork) as own:
        own.make_key("hr")
        with Pkcs11Kms.from_properties(own.properties) as client:
            wrapped = client.wrap(KEY, "hr")
            with client.connection.module.lock:  # a thread of the parent is inside the library
                here, there = multiprocessing.Pipe()
                given = (client, wrapped, client.connection.session, there)
                child = multiprocessing.get_context("fork").Process(target=_in_child, args=given)
                child.start()
                there.close()
                assert here.poll(20), "the child waits for a lock that nobody will release"
                answer = here.recv()
            child.join(60)
            here.close()
            assert not isinstance(answer, Exception), answer
            assert answer[0] == KEY
            assert client.unwrap(answer[1], "hr") == KEY


def test_a_pickled_client_works_in_a_new_process(client: Pkcs11Kms, tmp_path: Path) -> None:
    wrapped = client.wrap(KEY, "hr")
    (tmp_path / "client").write_bytes(pickle.dumps(client))
    script = (
        "import pickle, pathlib, sys\n"
        "client = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "print(client.unwrap(bytes.fromhex(sys.argv[2]), 'hr').hex())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "client"), wrapped.hex()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == KEY.hex(), done.stderr
