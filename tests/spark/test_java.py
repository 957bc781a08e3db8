"""Java's own checks: unit tests by JUnit 5, google-java-format, and a pom.xml that says what the build does.

    jvm/src/test/java ──javac, lints as errors──> classes ──JUnit's console launcher, with pyspark's jars──> a summary

JUnit and the formatter come from Maven's registry, in the versions of jvm/pom.xml. Spark's jars are those of pyspark:
Maven would fetch them once more.
"""

from __future__ import annotations

import json
import re
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyspark
import pytest
from jvm import jar as build
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField

from kit.programs.commands import jdk
from kit.programs.maven import bring

TOP = Path(__file__).parents[2]
JVM = TOP / "jvm"
RESOURCES = JVM / "src" / "test" / "resources"
SPARK = Path(pyspark.__file__).parent / "jars"
MAVEN = {"m": "http://maven.apache.org/POM/4.0.0"}
OPENS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.nio", "sun.nio.ch")]  # as Spark's own
COMPILER = [f"--add-exports=jdk.compiler/com.sun.tools.javac.{package}=ALL-UNNAMED" for package in
            ("api", "code", "file", "parser", "tree", "util")]  # fmt: skip


def versions() -> dict[str, str]:
    found = ET.parse(JVM / "pom.xml").find("m:properties", MAVEN)
    assert found is not None
    return {each.tag.partition("}")[2]: each.text or "" for each in found}


def test_unit_tests_pass(tmp_path: Path) -> None:
    # The launcher of JUnit 5.x is of the platform 1.x.
    launcher = "org.junit.platform:junit-platform-console-standalone:" + re.sub("^5", "1", versions()["junit.version"])
    classpath = f"{build.ensure()}:{bring(launcher)[0]}:{SPARK}/*"
    sources = sorted((JVM / "src" / "test" / "java").rglob("*.java"))
    command = [
        jdk().javac,
        f"{build.LINT},-processing",
        "-Werror",
        "-proc:none",
        "-encoding",
        "UTF-8",
        "--release",
        "17",
    ]
    done = subprocess.run(
        [*map(str, command), "-d", str(tmp_path), "-cp", classpath, *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = [
        str(jdk().java),
        *OPENS,
        f"-Dsealberg.vectors={TOP / 'vectors'}",
        "-cp",
        f"{tmp_path}:{RESOURCES}:{classpath}",
    ]
    run += ["org.junit.platform.console.ConsoleLauncher", "execute", "--scan-classpath", str(tmp_path)]
    run += ["--details=summary", "--disable-banner", "--disable-ansi-colors", "--fail-if-no-tests"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    vectors = sum(len(json.loads(path.read_text())) for path in RESOURCES.glob("*.json"))
    vectors += len(list((TOP / "vectors" / "protocol").glob("*.json")))
    passed = re.search(r"(\d+) tests successful", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) > vectors, "every vector is a test"


def test_sources_are_formatted() -> None:
    version = versions()["google-java-format.version"]
    [formatter] = bring(f"com.google.googlejavaformat:google-java-format:{version}:jar:all-deps")
    sources = [str(path.relative_to(TOP)) for path in sorted((JVM / "src").rglob("*.java"))]
    run = [str(jdk().java), *COMPILER, "-jar", str(formatter), "--dry-run", "--set-exit-if-changed", *sources]
    done = subprocess.run(run, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        f"not formatted ({' '.join(run[: -len(sources)])} --replace): {done.stdout}{done.stderr}"
    )


def test_the_pom_describes_the_same_build() -> None:
    pom = (JVM / "pom.xml").read_text()
    assert f"<arg>{build.LINT}</arg>" in pom
    assert versions()["maven.compiler.release"] == str(build.JAVA_AT_LEAST)
    series = versions()["spark.version"].rpartition(".")[0]
    pins = (TOP / "constraints.txt").read_text().splitlines()
    assert [pin for pin in pins if pin.startswith(f"pyspark=={series}.")], f"pyspark is pinned to {series}"


def transform_vectors() -> list[Any]:
    return [
        pytest.param(each, id="-".join(map(str, each.values())))
        for each in json.loads((RESOURCES / "transforms.json").read_text())
    ]


@pytest.mark.parametrize("vector", transform_vectors())
def test_pyiceberg_gives_the_results_that_java_is_tested_with(vector: dict[str, Any]) -> None:
    kind = parse_type(vector["type"])
    name = {"years": "year", "months": "month", "days": "day", "hours": "hour"}.get(
        vector["transform"], vector["transform"]
    )
    transform: Any = parse_transform(f"{name}[{vector['width']}]" if vector["width"] else name)
    result = transform.transform(kind)(value(vector["value"], vector["type"]))
    expected = vector["result"] if vector["transform"] == "bucket" else value(vector["result"], vector["type"])
    assert result == (vector["result"] if name in {"year", "month", "day", "hour"} else expected)


def parse_type(name: str) -> IcebergType:
    return NestedField.model_validate({"id": 1, "name": "x", "type": name, "required": False}).field_type


def value(given: Any, kind: str) -> Any:
    if kind == "binary" and given is not None:
        return bytes.fromhex(given)
    return Decimal(given) if kind.startswith("decimal") and given is not None else given
