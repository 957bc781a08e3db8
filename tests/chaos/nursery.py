"""A process that has imported everything, and from which workers are born at once.

    stdin   spawn <worker> <life>
    stdout  born <worker> <pid>        ended <worker> <exit status, negative for a signal>

python -m chaos.nursery <folder of the round>; it ends with its standard input, and its workers with it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from typing import TYPE_CHECKING

import pyiceberg.catalog.sql
import pyiceberg.io.pyarrow
import pyiceberg.table  # noqa: F401

import sealberg.catalogs.sql.catalog
import sealberg.table.transaction  # noqa: F401
from chaos.round import Round
from chaos.worker import work

if TYPE_CHECKING:
    from pathlib import Path


def main() -> None:
    settings = Round.read(sys.argv[1])
    alive: dict[int, int] = {}
    buffer = b""
    while True:
        if select.select([0], [], [], 0.05)[0]:
            data = os.read(0, 4096)
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                _, worker, life = line.split()
                alive[_born(settings, int(worker), int(life))] = int(worker)
        _report(alive)
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def _born(settings: Round, worker: int, life: int) -> int:
    pid = os.fork()
    if pid:
        print("born", worker, pid, flush=True)
        return pid
    try:
        _to_file(settings.logs / f"{worker}.err")
        work(settings, worker, life)
    except BaseException:
        traceback.print_exc()
        os._exit(3)
    os._exit(0)


def _to_file(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _report(alive: dict[int, int]) -> None:
    while alive:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        print("ended", alive.pop(pid), os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
