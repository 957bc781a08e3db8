"""The Java side of the bridge: a jar beside this file, or one compiled once from the sources that are.

    sealberg.jar in the package ──> that one
    sources ──javac, against the jars of the installed pyspark──> ~/.cache/sealberg/bridge-<hash>.jar

The hash covers the sources and the version of Spark. Compilers race to make the same file, and the last rename wins.
Spark runs what is in the jar: a cache that somebody else can write to is refused.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from sealberg.errors import ConfigError
from sealberg.spark.private_folder import check_private

JAVA_AT_LEAST: Final = 17
SPARK_AT_LEAST: Final = (4, 1)
WAY_OUT: Final = "set XDG_CACHE_HOME to a folder that only you can write to, or take the rights away from others"
HERE: Final = Path(__file__).resolve().parent


def find_jar() -> Path:
    """The jar for `spark.jars`; compiled when it is asked for the first time."""
    packaged = HERE / "sealberg.jar"
    if packaged.exists():
        return packaged
    spark, version = _spark()
    sources = sorted(_sources().glob("**/*.java"))
    digest = hashlib.sha256(version.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    jar = _cache() / f"bridge-{digest.hexdigest()[:20]}.jar"
    if not os.path.lexists(jar):
        _compile(sources, spark / "jars", jar)
    check_private(jar, WAY_OUT)
    return jar


def _spark() -> tuple[Path, str]:
    try:
        import pyspark
    except ImportError:
        raise ConfigError("Spark is not installed: pip install 'sealberg[spark]' brings it") from None
    version = str(pyspark.__version__)
    if tuple(map(int, version.split(".")[:2])) < SPARK_AT_LEAST:
        raise ConfigError(f"Spark {version} is too old: sealberg needs Spark 4.1 or newer")
    return Path(pyspark.__file__).parent, version


def _sources() -> Path:
    """In a wheel they are beside this file, in a checkout at the top."""
    for place in (HERE / "jvm", HERE.parents[2] / "jvm" / "src" / "main" / "java"):
        if place.is_dir():
            return place
    raise ConfigError("this installation of sealberg has neither the jar for Spark nor its sources")


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder, WAY_OUT)
    return folder


def _compile(sources: list[Path], jars: Path, jar: Path) -> None:
    javac = _program("javac")
    _check_version(javac)
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, made = Path(folder) / "classes", Path(folder) / "made.jar"
        command: list[str | Path] = [
            javac,
            "-nowarn",
            "--release",
            str(JAVA_AT_LEAST),
            "-d",
            classes,
            "-cp",
            f"{jars}/*",
            *sources,
        ]
        _run(command)
        _run([_program("jar"), "--create", "--file", made, "-C", classes, "."])
        made.chmod(0o600)
        made.replace(jar)


def _program(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else None
    found = found or shutil.which(name)
    if found is None:
        raise ConfigError(
            f"no {name} found: Spark's side of sealberg is compiled once, by a JDK {JAVA_AT_LEAST} or newer"
        )
    return found


def _check_version(javac: str) -> None:
    told = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    number = re.search(r"javac (?:1\.)?(\d+)", told.stdout + told.stderr)
    if number is None or int(number[1]) < JAVA_AT_LEAST:
        raise ConfigError(
            f"{javac} is of Java {number[1] if number else 'unknown'}, {JAVA_AT_LEAST} or newer is needed"
        )


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise ConfigError(f"the Java side of sealberg does not compile:\n{(done.stderr or done.stdout)[:2000]}")
