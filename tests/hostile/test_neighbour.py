"""Another user of the driver's host gets no key, no row, no token and no passphrase out of a running session.

Ports, sockets, files and processes are those of the driver and all of its children, as /proc has them.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.commands import jdk

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run these tests as root"),
]
TESTS = Path(__file__).resolve().parents[1]
LISTENS = "0A"


@dataclass(frozen=True)
class Victim:
    """A running driver, and what a neighbour may not find out."""

    folder: Path
    told: dict[str, Any]
    more: list[str]

    @property
    def processes(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(stat.parent.name))
        found = [int(self.told["pid"])]
        for pid in found:
            found.extend(children.get(pid, ()))
        return found

    def secrets(self) -> dict[str, bytes]:
        found = {text: text.encode() for text in (*self.told["secrets"]["texts"], *self.more)}
        for key in map(bytes.fromhex, self.told["secrets"]["keys"]):
            found[f"key {key.hex()}, raw"] = key
            found[f"key {key.hex()}, hex"] = key.hex().encode()
            found[f"key {key.hex()}, base64"] = b64encode(key).rstrip(b"=")[:-1]
        return found

    def found_in(self, answer: bytes) -> list[str]:
        shown = [answer, answer.lower()]
        return [name for name, secret in self.secrets().items() if any(secret in one for one in shown)]


@pytest.fixture(scope="module", params=["local[2]", "local-cluster[1,1,700]"])
def victim(request: pytest.FixtureRequest) -> Iterator[Victim]:
    jdk()  # or there is no Spark
    folder = Path(tempfile.mkdtemp(prefix="sealberg-neighbour-"))
    folder.chmod(0o755)  # unlike pytest's own folders, which no neighbour can enter
    secret, passphrase = secrets.token_hex(16), secrets.token_hex(16)
    for name, mode in (("home", 0o755), ("tmp", 0o1777), ("events", 0o755), ("conf", 0o755), ("work", 0o755)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    defaults = folder / "conf" / "spark-defaults.conf"
    defaults.touch(0o600)
    defaults.write_text(f"spark.authenticate.secret {secret}\n" if "cluster" in request.param else "")
    here = {
        **{name: value for name, value in os.environ.items() if name not in ("XDG_RUNTIME_DIR", "SPARK_HOME")},
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser()),
        "TMPDIR": str(folder / "tmp"),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SEALBERG_HOME": str(folder / "home" / "sealberg"),
        "SEALBERG_PASSPHRASE": passphrase,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }
    for command in (["keystore", "create", "--work-factor", "12"], ["keystore", "add", "hr"]):
        subprocess.run([sys.executable, "-m", "sealberg.cli.main", *command], env=here, check=True, capture_output=True)
    with (folder / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "kit.programs.victim", str(folder), request.param],
            env=here,
            cwd=folder / "work",
            umask=0o022,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (folder / "stderr").read_text()[-3000:]
        yield Victim(folder, json.loads(line), [passphrase, secret])
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
        process.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)  # executors may still be at it


def inodes(pids: list[int]) -> set[str]:
    found = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = os.readlink(link)  # noqa: PTH115
            except OSError:
                continue
            if named := re.fullmatch(r"socket:\[(\d+)\]", target):
                found.add(named[1])
    return found


def ports(pids: list[int]) -> list[tuple[str, int]]:
    """Where these processes listen."""
    ours, found = inodes(pids), set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = (fields := line.split())
            if state == LISTENS and fields[9] in ours:
                address, _, port = local.partition(":")
                words = [struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8)]
                host = socket.inet_ntop(socket.AF_INET if table == "tcp" else socket.AF_INET6, b"".join(words))
                everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
                found.add((everywhere.get(host, host), int(port, 16)))
    return sorted(found)


def unix_sockets(pids: list[int]) -> list[str]:
    ours = inodes(pids)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return sorted({line[7] for line in lines if len(line) > 7 and line[6] in ours})


def files(victim: Victim) -> list[str]:
    """All below its folder, and all that its processes have open elsewhere."""
    found = {str(path) for path in victim.folder.rglob("*") if path.is_file() and not path.is_symlink()}
    for pid in victim.processes:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                target = Path(os.readlink(link))  # noqa: PTH115
            except OSError:
                continue
            library = target.suffix in (".jar", ".so", ".py", ".pyc") or str(target).startswith(
                ("/dev", "/proc", "/usr")
            )
            if not library and target.is_file():
                found.add(str(target))
    return sorted(found)


@pytest.fixture(scope="module")
def answers(victim: Victim) -> dict[str, bytes]:
    control = victim.folder / "tmp" / "control"
    control.write_text(f"for all to read: {victim.more[0]}")
    pids = victim.processes
    spec = {
        "ports": ports(pids),
        "sockets": unix_sockets(pids),
        "files": files(victim),
        "processes": pids,
        "app": victim.told["app"],
        "rdds": victim.told["rdds"],
        "ui": int(victim.told["ui"].rpartition(":")[2]),
    }
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "kit.programs.neighbour"]
    done = subprocess.run(command, input=json.dumps(spec).encode(), env=here, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return {name: b64decode(answer) for name, answer in json.loads(done.stdout).items()}


def leaks(victim: Victim, answers: dict[str, bytes], kind: str) -> dict[str, list[str]]:
    chosen = {name: answer for name, answer in answers.items() if name.startswith(kind)}
    assert chosen, f"no {kind} was tried"
    return {name: found for name, answer in chosen.items() if (found := victim.found_in(answer))}


def test_a_file_that_everybody_may_read_is_seen(victim: Victim, answers: dict[str, bytes]) -> None:
    """Or the other tests would see nothing."""
    assert victim.found_in(answers[f"file {victim.folder}/tmp/control"]) == [victim.more[0]]


def test_ports_tell_nothing(victim: Victim, answers: dict[str, bytes]) -> None:
    assert leaks(victim, answers, "port") == {}
    listened = {name.split(":")[0] for name in answers if name.startswith("port")}
    assert len(listened) >= 3, "the gateway of PySpark, Spark's RPC, its blocks: all were tried"


def test_pages_of_spark_tell_nothing(victim: Victim, answers: dict[str, bytes]) -> None:
    assert leaks(victim, answers, "page") == {}
    port = victim.told["ui"].rpartition(":")[2]
    assert victim.told["app"].encode() in answers[f"page {port} /api/v1/applications"], "the pages were served"


def test_sockets_cannot_be_reached(victim: Victim, answers: dict[str, bytes]) -> None:
    assert leaks(victim, answers, "socket") == {}
    bridge = [answer for name, answer in answers.items() if re.match(r"socket .*/sealberg-[^/]+/python: ", name)]
    assert bridge
    assert set(bridge) == {b"<PermissionError>"}


def test_files_tell_nothing(victim: Victim, answers: dict[str, bytes]) -> None:
    found = leaks(victim, answers, "file")
    found.pop(f"file {victim.folder}/tmp/control")
    assert found == {}
    assert len(answers) > 100


def test_processes_tell_nothing(victim: Victim, answers: dict[str, bytes]) -> None:
    assert leaks(victim, answers, "process") == {}
    for name, answer in answers.items():
        if name.startswith("process") and name.endswith((": environ", ": mem", ": maps")):
            # A process that has just ended (a zombie) has no memory any more: its maps open, and are empty.
            assert answer.startswith(b"<") or not answer, name
