"""Third-party programs that tests run: age, a JDK, servers.

    need("age", apt="age")     the program's path; if it is missing, the test is skipped, and fails in CI
    jdk()                      where java, javac and keytool are
    compile_java(Check.java)   a folder of classes for `java -cp`, compiled once for all workers
    on_terminal([...], secret) run a program that asks for a passphrase
    alone(name)                one pytest worker at a time

A skip always says what to install, so that everybody can run the test.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Jdk:
    """The three programs of a Java development kit that tests use."""

    java: Path
    javac: Path
    keytool: Path


def need(program: str, *, apt: str) -> Path:
    """The path of `program`; `apt` is the Debian package that has it."""
    if found := shutil.which(program):
        return Path(found)
    pytest.skip(f"{program} is not on PATH; apt-get install {apt} brings it (.ci/packages installs all of them)")


def jdk() -> Jdk:
    """The JDK of JAVA_HOME if it has a compiler, otherwise the JDK on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and all((Path(home) / "bin" / name).is_file() for name in ("java", "javac", "keytool")):
        folder = Path(home) / "bin"
        return Jdk(folder / "java", folder / "javac", folder / "keytool")
    package = "default-jdk-headless"
    return Jdk(need("java", apt=package), need("javac", apt=package), need("keytool", apt=package))


def compile_java(source: Path, *more: Path, out: Path | None = None, classpath: str = "") -> Path:
    """Compile a source file and the sources that it needs; return the folder of the classes.

    Without `out` the folder is shared by all workers and later runs, under a name that
    changes with the sources, the classpath and the compiler.
    """
    javac = jdk().javac
    sources = (source, *more)
    facts = (*(each.read_bytes() for each in sources), classpath.encode(), os.fsencode(javac.resolve()))
    name = hashlib.sha256(b"\0".join(facts)).hexdigest()[:32]
    classes = out or shared_folder() / f"{source.stem}-{name}"
    done = classes / f".compiled-{name}"
    with alone(f"{source.stem}-{name}"):
        if not done.exists():
            classes.mkdir(parents=True, exist_ok=True)
            path = ["-cp", classpath] if classpath else []
            _run([str(javac), "-encoding", "UTF-8", *path, "-d", str(classes), *map(str, sources)])
            done.touch()
    return classes


def on_terminal(command: list[str], passphrase: str, *, patience_s: float = 60) -> tuple[int, str]:
    """Run a program that asks for passphrases on its terminal, and give the same answer each time.

    Returns its exit code and its output.
    """
    terminal, its_side = pty.openpty()
    # setsid makes it the controlling terminal, which age opens by name; pty.fork would do so too,
    # and Python 3.12 warns of forking a process with threads, which a pytest worker is.
    child = subprocess.Popen(["setsid", "--ctty", *command], stdin=its_side, stdout=its_side, stderr=its_side)
    os.close(its_side)
    deadline, said, answered = time.monotonic() + patience_s, b"", 0
    with child:
        try:
            while time.monotonic() < deadline:
                if not select.select([terminal], [], [], 0.1)[0]:
                    continue
                try:
                    read = os.read(terminal, 4096)
                except OSError:  # Linux's way to say that the child closed its side
                    break
                said += read
                if re.search(rb"(?i)passphrase[^\n]*: ?$", said[answered:]):
                    os.write(terminal, passphrase.encode() + b"\n")
                    answered = len(said)
            else:
                child.kill()
        finally:
            os.close(terminal)
    return child.returncode, said.decode(errors="replace")


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode:
        pytest.fail(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")


def shared_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"sealberg-tests-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let one process at a time run the block, among all pytest workers of this user."""
    with (shared_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
