"""Another user of the machine, who tries the given ports, sockets, files and processes; run by a test as root.

    python -m kit.programs.neighbour < {"ports": [...], "sockets": [...], "files": [...], "processes": [...], ...}
                            > {"what was tried": what came back, in base64}

Everything is imported before the privileges are dropped: the other user may have no right to read Python itself.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 (or it would be imported by the first connection)
import json
import os
import socket
import struct
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

NOBODY = 65534
MOST = 4 << 20
PAGES = (
    "/",
    "/jobs/",
    "/stages/",
    "/storage/",
    "/environment/",
    "/executors/",
    "/executors/threadDump/?executorId=driver",
    "/SQL/",
    "/json/",
    "/metrics/json/",
    "/api/v1/applications",
    "/api/v1/applications/{app}/environment",
    "/api/v1/applications/{app}/sql?details=true&planDescription=true&length=100",
    "/api/v1/applications/{app}/storage/rdd",
    "/api/v1/applications/{app}/allexecutors",
    "/api/v1/applications/{app}/logs",
    *(f"/SQL/execution/?id={number}" for number in range(0, 12, 2)),
)


def frame(kind: int, body: bytes) -> bytes:
    """A message of Spark's network protocol without authentication."""
    return struct.pack(">qb", 9 + len(body), kind) + body


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def blocks(app: str, names: list[str]) -> bytes:
    """Ask a block manager for blocks, and then for the chunks of the stream."""
    asked = b"\0" + text(app) + text("driver") + struct.pack(">i", len(names)) + b"".join(map(text, names))
    return frame(3, struct.pack(">qi", 7, len(asked)) + asked)


def messages(app: str, rdds: list[int]) -> dict[str, bytes]:
    return {
        "silence": b"",
        "garbage": bytes(range(256)) * 8,
        "py4j-gateway": b"A\nguess\ne\nr\nu\norg\nrj\ne\n",
        "bridge": struct.pack(">I", 33) + b'{"protocol": 2, "token": "guess"}',
        "files": frame(6, text("/jars/x.jar")),
        **{f"cached rows {rdd}": blocks(app, [f"rdd_{rdd}_0"]) for rdd in rdds},
    }


def callback(port: int, target: str, verb: str, arguments: dict[str, Any]) -> bytes:
    """A py4j call to a Python object, as the JVM makes it."""
    encoded = json.dumps(arguments).replace("\\", "\\\\")
    return ask(("127.0.0.1", port), socket.AF_INET, f"c\n{target}\ncall\ns{verb}\ns{encoded}\ne\n".encode(), 1)


LOAD = {"table": ["hr", "pay"], "settings": {}, "catalog-options": {}}
MAX = {"function": "max", "column": "name"}


def callbacks(port: int) -> bytes:
    """What a py4j callback server reveals of a table: the plan with its keys, and the greatest value."""
    said = b""
    for target in ("p0", "p1"):
        said += (loaded := callback(port, target, "load-table", LOAD))
        if not loaded.startswith(b"!ys"):
            continue
        answer = loaded.partition(b"\n")[0].decode()[3:].replace("\\n", "\n").replace("\\\\", "\\")
        about = {"handle": json.loads(answer)["ok"]["handle"]}
        columns = {"type": "struct", "fields": []}
        said += callback(port, target, "scan-request", {**about, "filters": [], "columns": columns})
        said += callback(port, target, "aggregate-request", {**about, "aggregates": [MAX]})
    return said


def ask(address: Any, family: int, message: bytes, wait: float) -> bytes:
    answer = b""
    try:
        with socket.socket(family) as connection:
            connection.settimeout(wait)
            connection.connect(address)
            if message:
                connection.sendall(message)
            while len(answer) < MOST and (some := connection.recv(1 << 16)):
                answer += some
                if message[8:9] == b"\3" and answer[8:9] == b"\4" and len(answer) >= 34:
                    stream = answer[22:30]  # was opened: its first chunk, please
                    connection.sendall(frame(0, stream + struct.pack(">i", 0)))
                    message = b""
    except OSError as error:
        answer += f"<{type(error).__name__}>".encode()
    return answer


def tried(spec: dict[str, Any]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for host, port in spec["ports"]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        for name, message in messages(spec["app"], spec["rdds"]).items():
            found[f"port {host} {port}: {name}"] = ask((host, port), family, message, 0.5)
        found[f"port {host} {port}: callbacks"] = callbacks(port)
        alive = ask((host, port), family, b"GET / HTTP/1.0\r\n\r\n", 15 if port == spec["ui"] else 2)
        for page in PAGES if alive.startswith(b"HTTP/") else ():
            request = f"GET {page.format(app=spec['app'])} HTTP/1.0\r\nHost: x\r\n\r\n".encode()
            found[f"page {port} {page}"] = ask((host, port), family, request, 60)
    for path in spec["sockets"]:
        for name in ("silence", "bridge", "garbage"):
            address = "\0" + path[1:] if path.startswith("@") else path
            found[f"socket {path}: {name}"] = ask(address, socket.AF_UNIX, messages("", [])[name], 1)
    for path in spec["files"]:
        found[f"file {path}"] = read(path)
    for pid in spec["processes"]:
        for name in ("environ", "cmdline", "maps", "mem", "auxv", "stack", "syscall"):
            found[f"process {pid}: {name}"] = read(f"/proc/{pid}/{name}")
    return found


def read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(64 << 20)
    except OSError as error:
        return f"<{type(error).__name__}>".encode()


def main() -> None:
    spec = json.load(sys.stdin)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    json.dump({name: b64encode(answer).decode() for name, answer in tried(spec).items()}, sys.stdout)


if __name__ == "__main__":
    main()
