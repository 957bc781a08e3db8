"""A Maven repository with the jar for Spark, for `--packages` and `--repositories`; the same bytes every time.

    python -m jvm.repository FOLDER [JAR]       JAR is build/sealberg.jar unless it is given

    FOLDER/io/sealberg/sealberg-spark_2.13/VERSION/
        sealberg-spark_2.13-VERSION.jar, -sources.jar, .pom, each with .md5, .sha1, .sha256 and .sha512

Group and artifact are those of pom.xml, the version is the wheel's. The POM names no dependencies: Spark brings all
that the jar needs. Like jar.py it needs the standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import zipfile
from pathlib import Path
from typing import NamedTuple

from jvm import jar

CHECKSUMS = ("md5", "sha1", "sha256", "sha512")  # Ivy looks for sha1 and md5, newer Maven also for the others
POM = """\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>sealberg for Spark</name>
  <description>Encrypted Apache Iceberg tables on Spark. The driver needs Python with sealberg {version}.</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
    </license>
  </licenses>
</project>
"""


class Coordinates(NamedTuple):
    """What `--packages` names."""

    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return ":".join(self)


def coordinates() -> Coordinates:
    pom = (jar.HERE / "pom.xml").read_text(encoding="utf-8")
    group, artifact = (re.search(rf"<{name}>([\w.-]+)</{name}>", pom) for name in ("groupId", "artifactId"))
    if group is None or artifact is None:
        raise jar.BuildError("jvm/pom.xml names no groupId or no artifactId")
    return Coordinates(group[1], artifact[1], jar.version())


def fill(repository: Path, made: Path) -> Path:
    """Add the jar of this version to a repository, in the place of one that is there; the folder of the version."""
    found = coordinates()
    folder = repository.joinpath(*found.group.split("."), found.artifact, found.version)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name = f"{found.artifact}-{found.version}"
    shutil.copyfile(made, folder / f"{name}.jar")
    with zipfile.ZipFile(folder / f"{name}-sources.jar", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for sources in (jar.SOURCES, jar.RESOURCES):
            for path in sorted(path for path in sources.rglob("*") if path.is_file()):
                jar.add(archive, path.relative_to(sources).as_posix(), path.read_bytes())
    (folder / f"{name}.pom").write_text(POM.format(**found._asdict()), encoding="utf-8")
    for path in sorted(folder.iterdir()):
        for checksum in CHECKSUMS:
            digest = hashlib.new(checksum, path.read_bytes(), usedforsecurity=False).hexdigest()
            path.with_name(f"{path.name}.{checksum}").write_text(digest, encoding="ascii")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repository", type=Path)
    parser.add_argument("jar", type=Path, nargs="?")
    given = parser.parse_args()
    fill(given.repository, given.jar or jar.ensure())
    print(coordinates())


if __name__ == "__main__":
    main()
