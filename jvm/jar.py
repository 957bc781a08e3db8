"""Compile the Java side of sealberg into one jar, the same bytes every time.

    python jvm/jar.py                 build/sealberg.jar of this checkout, compiled against the installed pyspark
    python jvm/jar.py --to FILE       another file
    python jvm/jar.py --spark FOLDER  against the jars of another Spark

    src/main/java ──javac --release 17 -Xlint:all -Werror──> classes, src/main/resources ──sorted, fixed times──> jar

The manifest of the jar holds the SHA-256 of the sources. A jar with the hash of the present sources is not made again,
and sealberg.spark.jar refuses a jar of a checkout whose hash differs. Only the standard library is imported: the
build of a wheel runs this file before anything is installed.

One jar serves every supported Spark. It is compiled against the installed one, and a test (tests/spark/test_link.py)
sees that the oldest compiles the same bytes, and that all symbols are in each Spark.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src" / "main" / "java"
RESOURCES = HERE / "src" / "main" / "resources"
BUILT = HERE.parent / "build" / "sealberg.jar"
VERSION = HERE.parent / "src" / "sealberg" / "version.py"
MANIFEST = "META-INF/MANIFEST.MF"
HASH = "Sealberg-Sources"
JAVA_AT_LEAST = 17
# The manifests of Spark's jars name other jars that pyspark does not bring: javac would warn about each ("path").
# Lint of classfiles warns about annotations of Arrow's classes, which are not Spark's either.
LINT = "-Xlint:all,-path,-classfile"


class BuildError(Exception):
    """The jar cannot be built; the message says what is missing or wrong."""


def ensure(to: Path = BUILT, jars: Path | None = None) -> Path:
    """The jar of the present sources: the one at `to` if it is, else a new one in its place."""
    wanted = source_hash()
    if jar_hash(to) != wanted:
        build(to, jars or installed_spark())
    return to


def source_hash(sources: Path = SOURCES) -> str:
    """Of the version, and of every source file its path and its content."""
    digest = hashlib.sha256(f"{version()}\0".encode())
    resources = sources.parent / RESOURCES.name
    for folder, pattern in ((sources, "*.java"), (resources, "*")):
        for source in sorted(path for path in folder.rglob(pattern) if path.is_file()):
            content = source.read_bytes()
            digest.update(f"{source.relative_to(folder).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def version() -> str:
    return str(runpy.run_path(str(VERSION))["__version__"])


def jar_hash(jar: Path) -> str | None:
    """The hash of the sources that a jar was made of, or None if it is no jar of ours."""
    try:
        with zipfile.ZipFile(jar) as archive:
            manifest = archive.read(MANIFEST).decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None
    found = re.search(rf"^{HASH}: (\w+)\s*\r?\n (\w+)", manifest, re.MULTILINE)
    return found[1] + found[2] if found else None


def installed_spark() -> Path:
    """The folder of the jars of the pyspark that this interpreter would import."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BuildError("pyspark is not installed: its jars are needed to compile the Java side of sealberg")
    return Path(spec.origin).parent / "jars"


def build(to: Path, jars: Path) -> None:
    """Compile all sources against these jars. The file appears whole, or not at all."""
    javac = _javac()
    to.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to.parent) as folder:
        classes, made = Path(folder) / "classes", Path(folder) / "made.jar"
        wanted = source_hash()
        command = [javac, LINT, "-Werror", "-encoding", "UTF-8", "--release", str(JAVA_AT_LEAST)]
        command += ["-proc:none", "-implicit:none", "-d", str(classes), "-cp", f"{jars}/*"]
        command += [str(source) for source in sorted(SOURCES.rglob("*.java"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise BuildError(f"the Java side of sealberg does not compile:\n{(done.stderr or done.stdout)[:4000]}")
        _pack(classes, made, wanted)
        made.replace(to)


def _pack(classes: Path, jar: Path, sources: str) -> None:
    # Lines of a manifest end after 72 bytes and go on after a space.
    # The JVM compares the version with that of the Python process that it starts.
    manifest = f"Manifest-Version: 1.0\r\n{HASH}: {sources[:32]}\r\n {sources[32:]}\r\n"
    manifest += f"Implementation-Version: {version()}\r\n\r\n"
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        add(archive, MANIFEST, manifest.encode())
        for path in sorted(classes.rglob("*.class")):
            add(archive, path.relative_to(classes).as_posix(), path.read_bytes())
        for path in sorted(path for path in RESOURCES.rglob("*") if path.is_file()):
            add(archive, path.relative_to(RESOURCES).as_posix(), path.read_bytes())


def add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    archive.writestr(entry, content)


def _javac() -> str:
    home = os.environ.get("JAVA_HOME")
    javac = (shutil.which("javac", path=f"{home}/bin") if home else None) or shutil.which("javac")
    if javac is None:
        raise BuildError(
            f"no javac in JAVA_HOME or PATH: building sealberg from its sources needs a JDK {JAVA_AT_LEAST} or newer "
            "(the wheel has the jar and needs a Java runtime only)"
        )
    said = subprocess.run([javac, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    number = re.search(r"javac (?:1\.)?(\d+)", said.stdout + said.stderr)
    if number is None or int(number[1]) < JAVA_AT_LEAST:
        found = number[1] if number else "unknown"
        raise BuildError(f"{javac} is of Java {found}, expected {JAVA_AT_LEAST} or newer: set JAVA_HOME to such a JDK")
    return javac


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, default=BUILT, metavar="FILE")
    parser.add_argument("--spark", type=Path, default=None, metavar="FOLDER", help="the folder of Spark's jars")
    given = parser.parse_args()
    try:
        ensure(given.to, given.spark)
    except BuildError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
