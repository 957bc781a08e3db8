"""A test that leaves something behind fails: a process, a port on which it listens, a file in the checkout.

    pytest_configure:  leftovers.watch(config)
    lasts(server.stop, lambda: {process(server.pid)})    a server for all tests of this process

    when                                  what must be gone
    the last test of a module has ended   its processes and ports, but those of wider fixtures and of `lasts`
    the last test of a process has ended  those too, after their `stop`; also what their processes have started
    the run has ended                     files in the checkout that `git status` did not show before

A process may take a while to end, so one that is still there is given PATIENCE_S. What is missed: a process that was
left by one of our processes which has ended, has another environment than its starter, and does not listen.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

CHECKOUT: Final = Path(__file__).parents[2]
PATIENCE_S: Final = 30.0
MARK: Final = "SEALBERG_TESTS"  # in the environment of all that this process starts
LISTENS: Final = "0A"
_lasting: Final[list[tuple[Callable[[], object], Callable[[], set[str]]]]] = []


def process(pid: int) -> str:
    return f"process {pid}"


def port(number: int) -> str:
    return f"port {number}"


def lasts(stop: Callable[[], object], what: Callable[[], set[str]]) -> None:
    """Something for all tests of this process, which `stop` ends after the last of them."""
    if not _lasting:
        atexit.register(stop_all)  # where there is no pytest, or where it was interrupted
    _lasting.append((stop, what))


def stop_all() -> None:
    while _lasting:
        _lasting.pop()[0]()


# -- what there is --------------------------------------------------------------------------------


def here() -> set[str]:
    """The processes that this process has started, and the ports on which it listens."""
    return {process(pid) for pid in children()} | {port(number) for number in ports()}


def children() -> set[int]:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual answer, by one call
    found = set[int]()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            found |= set(map(int, (thread / "children").read_text().split()))
    return {pid for pid in found if _state(pid) not in "Z"}


def _state(pid: int) -> str:
    """The state as /proc has it: Z for a process that has ended and was not waited for; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def ports() -> set[int]:
    """TCP ports on which this process listens."""
    sockets = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets.add(str(descriptor.readlink()))
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError), Path(f"/proc/self/net/{table}").open() as lines:
            next(lines)
            for line in lines:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == LISTENS and f"socket:[{inode}]" in sockets:
                    found.add(int(local.rpartition(":")[2], 16))
    return found


def descendants(mark: str) -> set[int]:
    """Every process with this mark in its environment, but this one."""
    wanted, found = f"{MARK}={mark}".encode(), set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0") and _state(int(entry.name)) != "Z":
                    found.add(int(entry.name))
    return found


def said(what: str) -> str:
    """What is left, so that whoever reads it knows where to look."""
    kind, _, number = what.partition(" ")
    if kind != "process":
        return what
    with suppress(OSError):
        command = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"{what} ({command.strip()[:300]})"
    return what


# -- when it is looked at -------------------------------------------------------------------------


def watch(config: pytest.Config) -> None:
    """Look during this run of pytest."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Checkout(), "sealberg-checkout")
    if not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Leftovers(), "sealberg-leftovers")


class Leftovers:
    """The plugin of each process in which tests run."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        os.environ[MARK] = self.mark
        self.before = here()  # of whoever called pytest
        self.by: dict[str, str] = {}
        self.wide: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope not in ("package", "session"):
            return (yield)
        before = here()
        result = yield
        self.wide |= here() - before
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        yield
        for pid in children():
            self.by.setdefault(process(pid), item.nodeid)
        if nextitem is None:
            stop_all()
            self.check(lambda: here() | {process(pid) for pid in descendants(self.mark)})
        elif nextitem.path != item.path:
            lasting = set[str]().union(*(what() for _, what in _lasting))
            self.check(lambda: here() - self.wide - lasting)

    def check(self, found: Callable[[], set[str]]) -> None:
        end = time.monotonic() + PATIENCE_S
        while (left := found() - self.before) and time.monotonic() < end:
            time.sleep(0.05)
        if left:
            self.before |= left  # told once
            lines = (f"{said(what)}, since {self.by.get(what, 'some test of this module')}" for what in sorted(left))
            pytest.fail("tests have left behind: " + "; ".join(lines), pytrace=False)


class Checkout:
    """The plugin of the process that knows the outcome of all tests."""

    def __init__(self) -> None:
        self.before = self.status()
        self.times: list[tuple[float, float, str]] = []
        self.left: list[str] = []

    def status(self) -> set[str]:
        """Changed and new files, without those that .gitignore names."""
        command = ["git", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"]
        try:
            done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return set()  # sources without git
        return set(filter(None, done.stdout.split("\0")))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.times.append((report.start, report.stop, report.nodeid))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        found = self.status() - self.before
        self.left = [self.told(line) for line in sorted(found)]
        # Outside of CI somebody may edit a file meanwhile, which is told and is no failure.
        is_left = any(line.startswith("??") for line in found) or (found and os.environ.get("CI"))
        if is_left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def told(self, line: str) -> str:
        try:
            at = (CHECKOUT / line[3:]).stat().st_mtime
        except OSError:
            return line
        running = sorted({test for start, stop, test in self.times if start - 1 <= at <= stop + 1})
        return f"{line} (changed while these ran: {', '.join(running[:8]) or 'no test'})"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.left:
            terminalreporter.section("files that are new or changed in the checkout", red=True, bold=True)
            terminalreporter.line("Tests write to tmp_path only; if you made these files yourself, run again.")
            for line in self.left:
                terminalreporter.line(line)
