"""The socket by which the JVM reaches Python: who may speak there, what it says, and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import AccessDeniedError, ConfigError
from sealberg.spark import private_folder
from sealberg.spark.driver import bridge_server
from sealberg.spark.driver.bridge_server import BridgeServer
from sealberg.spark.driver.dispatcher import Dispatcher
from sealberg.spark.protocol.frames import MOST_HELLO, PROTOCOL, FrameError, read_frame, write_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOBODY = 65534


class Echo:
    """A backend of one verb."""

    def call(self, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"ok": {"verb": verb, "arguments": arguments}}


@pytest.fixture
def server() -> Iterator[BridgeServer]:
    dispatcher = Dispatcher()
    dispatcher.install("prod", Echo())  # type: ignore[arg-type]
    started = BridgeServer(dispatcher)
    yield started
    started.close()


class Client:
    """What the JVM does."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        try:
            self.socket.connect(path)
        except OSError:
            self.socket.close()
            raise
        self.source, self.sink = self.socket.makefile("rb"), self.socket.makefile("wb")

    def say(self, **request: Any) -> Any:
        write_frame(self.sink, json.dumps(request).encode())
        answer = read_frame(self.source)
        return None if answer is None else json.loads(answer)

    def close(self) -> None:
        for one in (self.source, self.sink, self.socket):
            one.close()


@pytest.fixture
def client(server: BridgeServer) -> Iterator[Client]:
    opened = Client(server.path)
    yield opened
    opened.close()


def test_who_shows_the_token_is_answered(server: BridgeServer, client: Client) -> None:
    assert client.say(protocol=PROTOCOL, token=server.token)["protocol"] == PROTOCOL
    for number in range(3):
        answer = client.say(catalog="prod", verb="load", arguments={"table": ["hr", f"ü{number}"]})
        assert answer == {"ok": {"verb": "load", "arguments": {"table": ["hr", f"ü{number}"]}}}
    answer = client.say(catalog="other", verb="load", arguments={})
    assert "catalog other is not installed" in answer["error"]["text"]
    assert "error" in client.say(something="else")
    assert client.say(catalog="prod", verb="load", arguments={})["ok"]["verb"] == "load", "and it goes on"


@pytest.mark.parametrize("token", ["", "wrong", None, 7, ["a"], "0" * 64])
def test_who_does_not_is_not(client: Client, token: Any) -> None:
    assert client.say(protocol=PROTOCOL, token=token) is None


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"c\np0\ncall\nsplan\ns{}\ne\n",
        struct.pack(">I", MOST_HELLO + 1) + b"x",
        struct.pack(">I", 2) + b"[]",
        struct.pack(">I", 2) + b"\xff\xff",
        struct.pack(">I", 4000) + b"[" * 4000,
        struct.pack(">I", 0),
    ],
)
def test_garbage_is_not_answered(server: BridgeServer, client: Client, sent: bytes) -> None:
    client.socket.sendall(sent)
    assert client.source.read() == b""
    assert eventually(lambda: not server._connections)


def test_another_protocol_is_told_so(server: BridgeServer, client: Client) -> None:
    answer = client.say(protocol=PROTOCOL + 1, token=server.token)
    assert "use the jar of the installed sealberg" in answer["error"]["text"]
    assert client.source.read() == b""


def test_frames_that_end_early_are_told_from_a_connection_that_ended() -> None:
    assert read_frame(BytesIO(b"")) is None
    for cut in (b"\0\0", struct.pack(">I", 5) + b"abc"):
        with pytest.raises(FrameError, match="the connection ended"):
            read_frame(BytesIO(cut))


def test_the_folder_and_the_socket_are_this_user_s_alone(server: BridgeServer) -> None:
    folder = Path(server.path).parent
    facts = folder.stat()
    assert stat.S_IMODE(facts.st_mode) == 0o700
    assert facts.st_uid == os.geteuid()
    assert len(os.fsencode(server.path)) <= private_folder.SOCKET_PATH
    server.close()
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run this test as root")
def test_another_user_cannot_connect_and_would_not_be_heard(server: BridgeServer) -> None:
    def attempt() -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60)
            try:
                connection.connect(server.path)
                write_frame(
                    connection.makefile("wb"), json.dumps({"protocol": PROTOCOL, "token": server.token}).encode()
                )
                return repr(connection.recv(100))
            except OSError as error:
                return type(error).__name__

    assert as_nobody(attempt) == "PermissionError"
    Path(server.path).parent.chmod(0o755)  # as if the folder did not protect it
    Path(server.path).chmod(0o777)
    assert as_nobody(attempt) in ("b''", "BrokenPipeError", "ConnectionResetError"), "even with the token"


def as_nobody(act: Callable[[], str]) -> str:
    """What `act` gives in a child process of another user."""
    source, sink = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(sink, act().encode())
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source) as told:
        found = told.read()
    os.waitpid(child, 0)
    return found


def test_connections_beyond_the_limit_wait_for_their_turn(
    server: BridgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge_server, "MOST_CONNECTIONS", 2)
    small = BridgeServer(server.dispatcher)
    first, second, third = (Client(small.path) for _ in range(3))
    try:
        for one in (first, second):
            assert one.say(protocol=PROTOCOL, token=small.token)
        write_frame(third.sink, json.dumps({"protocol": PROTOCOL, "token": small.token}).encode())
        third.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            third.socket.recv(1)
        assert len(small._connections) == 2
        first.close()
        third.socket.settimeout(60)
        assert third.socket.recv(1)
    finally:
        for one in (first, second, third):
            one.close()
        small.close()


FORKS = """
import json, os, sys, time
from sealberg.spark.driver import bridge_server
server = bridge_server.bridge_server()
print(json.dumps([server.path, server.token]), flush=True)
sys.stdin.readline()
child = os.fork()
if not child:
    assert os.path.exists(server.path)
    assert bridge_server.bridge_server().path != server.path
    os.write(1, b"forked\\n")  # at once: the parent writes, too
    time.sleep(60)
    os._exit(0)
os.write(1, b"%d\\n" % child)
sys.stdin.readline()
os._exit(0)
"""


def test_a_forked_child_has_no_part_in_it() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        path, token = json.loads(process.stdout.readline())
        client = Client(path)
        assert client.say(protocol=PROTOCOL, token=token)
        process.stdin.write(b"fork\n")
        process.stdin.flush()
        lines = {process.stdout.readline().strip() for _ in range(2)}
        assert b"forked" in lines
        process.stdin.write(b"end\n")
        process.stdin.flush()
        assert process.wait(60) == 0
        assert client.source.read() == b"", "the other side notices the end, though the child lives"
        with pytest.raises(ConnectionRefusedError):
            Client(path)
        os.kill(int((lines - {b"forked"}).pop()), signal.SIGKILL)
    client.close()
    shutil.rmtree(Path(path).parent)


PROGRAM = """
import os, sys
from sealberg.spark.driver.bridge_server import bridge_server
path = bridge_server().path
if not os.fork():
    sys.exit()  # runs what was registered for the exit of the parent
os.wait()
assert os.path.exists(path)
print(path)
"""


def test_the_folder_is_gone_when_the_process_ends() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    path = Path(done.stdout.strip())
    assert path.name == "python"
    assert not path.parent.exists()


def test_a_folder_that_others_can_change_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    shared = tmp_path / "s"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(AccessDeniedError, match=r"mode 0777, so others could replace .*: way out"):
        (shared / "own").mkdir(mode=0o700)
        private_folder.check_private(shared / "own", "way out")
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    folder = private_folder.private_folder("python")
    assert folder.parent == Path("/tmp")
    folder.rmdir()
    assert [one.name for one in shared.iterdir()] == ["own"], "and nothing is left where it could not stay"
    shared.chmod(0o1777)
    private_folder.check_private(shared / "own", "way out")
    (shared / "link").symlink_to(shared / "own")
    with pytest.raises(AccessDeniedError, match="is a symbolic link"):
        private_folder.check_private(shared / "link", "way out")


def test_a_path_that_no_socket_has_room_for_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    monkeypatch.setattr("tempfile.tempdir", str(long))
    folder = private_folder.private_folder("python")
    assert folder.parent == Path("/tmp")
    folder.rmdir()
    with pytest.raises(ConfigError, match="set TMPDIR to a folder"):
        private_folder.private_folder("y" * 100)


def eventually(true: Callable[[], bool]) -> bool:
    for _ in range(200):
        if true():
            return True
        time.sleep(0.02)
    return False


def test_threads_end_with_their_connections(server: BridgeServer) -> None:
    before = threading.active_count()
    for _ in range(20):
        client = Client(server.path)
        assert client.say(protocol=PROTOCOL, token=server.token)
        client.close()
    assert eventually(lambda: threading.active_count() <= before)
    assert not server._connections
