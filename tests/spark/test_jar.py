"""The jar for Spark: in the wheel, compiled when the wheel is built; never on the machine of a user."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from jvm import backend
from jvm import jar as build

from kit.programs.spark_versions import NEWEST, OTHERS, RELEASES, bring_spark
from sealberg.errors import ConfigError
from sealberg.spark import jar

PROVIDER = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
TOP = Path(__file__).parents[2]


def test_the_jar_of_a_checkout_is_that_of_its_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(TOP / "jvm", tmp_path / "jvm")
    (tmp_path / "src" / "sealberg").mkdir(parents=True)
    shutil.copy(TOP / "src" / "sealberg" / "version.py", tmp_path / "src" / "sealberg")
    monkeypatch.setattr(jar, "CHECKOUT", tmp_path)
    with pytest.raises(ConfigError, match=r"build/sealberg\.jar is missing: run `make jar`"):
        jar.find_jar()
    (tmp_path / "build").mkdir()
    shutil.copy(build.ensure(), tmp_path / "build")
    assert jar.find_jar() == tmp_path / "build" / "sealberg.jar"
    source = next((tmp_path / "jvm" / "src" / "main").rglob("*.java"))
    source.write_text(source.read_text() + "\n")
    with pytest.raises(ConfigError, match=r"build/sealberg\.jar is of other sources: run `make jar`"):
        jar.find_jar()
    shutil.rmtree(tmp_path / "jvm")
    with pytest.raises(ConfigError, match=r"sealberg\.jar is missing, which comes with the wheel: install sealberg"):
        jar.find_jar()


def test_spark_that_is_missing_or_of_another_series_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(ConfigError, match=r"Spark 3\.5\.1 is too old: sealberg needs Spark 4\.0 to 4\.3"):
        jar.find_jar()
    for newer in ("4.4.0", "4.10.0", "5.0.0"):
        monkeypatch.setattr(pyspark, "__version__", newer)
        with pytest.raises(ConfigError, match=rf"Spark {newer} is too new for this sealberg.* 'pyspark>=4\.0,<4\.4'"):
            jar.find_jar()
    for tested in (*RELEASES, "4.3.99"):
        monkeypatch.setattr(pyspark, "__version__", tested)
        assert jar.find_jar().exists()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match=r"Spark is not installed: pip install 'sealberg\[spark\]' brings it"):
        jar.find_jar()


def test_a_session_without_spark_or_java_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys; sys.modules.update({}); import sealberg.spark; sealberg.spark.session('prod', {{}})"
    empty = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    missing = {
        "'pyspark': None": r"Spark is not installed: pip install 'sealberg\[spark\]' brings it",
        "": "Spark needs Java 17 or newer, and PATH has no java, and JAVA_HOME is not set: install a JRE, or set",
    }
    for modules, said in missing.items():
        command = [sys.executable, "-c", code.format(f"{{{modules}}}")]
        done = subprocess.run(command, env=empty, capture_output=True, text=True, check=False)
        assert re.search(f"sealberg.errors.ConfigError: {said}", done.stderr), done.stderr
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(ConfigError, match="JAVA_HOME is /nowhere, which has no bin/java"):
        jar.check_java()


def test_exactly_the_tested_series_of_spark_are_allowed() -> None:
    (low, high), below = jar.SPARK_AT_LEAST, jar.SPARK_BELOW
    project = tomllib.loads((TOP / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["spark"] == [f"pyspark>={low}.{high},<{below[0]}.{below[1]}"]
    pinned = re.findall(r"(?m)^pyspark==(\S+)$", (TOP / "constraints.txt").read_text())
    assert [one.rpartition(".")[0] for one in pinned] == ["4.1"], "the series of which backend.py compiles"
    assert backend.SPARK == "pyspark>=4.1,<4.2"
    tested = [tuple(map(int, one.split(".")[:2])) for one in (*OTHERS, *pinned)]
    assert sorted(tested) == [(4, minor) for minor in range(high, below[1])]


def test_a_wheel_is_compiled_whatever_jar_lies_there() -> None:
    assert backend.SPARK in backend.get_requires_for_build_wheel()
    assert backend.SPARK not in backend.get_requires_for_build_sdist()


def test_a_release_is_built_by_packages_whose_hashes_are_checked() -> None:
    listed = [
        line for name in ("tools", "spark") for line in (TOP / ".ci" / f"build-{name}.txt").read_text().splitlines()
    ]
    hashed = [line.split() for line in listed if not line.startswith("#")]
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for _, one in hashed)
    pins = {pin for pin, _ in hashed}
    assert pins - set((TOP / "constraints.txt").read_text().splitlines()) == {
        pin
        for pin in pins
        if pin.startswith("setuptools==")  # it only unpacks pyspark, and nothing else needs it
    }
    assert {"hatchling", "pyspark", "build"} <= {pin.partition("==")[0] for pin in pins}


def test_a_build_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(build.BuildError, match=r"no javac in JAVA_HOME or PATH: .* needs a JDK 17 or newer"):
        build.ensure(tmp_path / "a.jar")
    javac = tmp_path / "javac"
    for said, number in (("javac 11.0.2", 11), ("javac 1.8.0_392 >&2", 8)):
        javac.write_text(f"#!/bin/sh\necho {said}\n")
        javac.chmod(0o700)
        with pytest.raises(build.BuildError, match=rf"is of Java {number}, expected 17 or newer: set JAVA_HOME"):
            build.ensure(tmp_path / "a.jar")
    broken = '[ "$1" = -version ] && echo javac 17.0.1 && exit\necho Bad.java:1: error: no >&2\nexit 1\n'
    javac.write_text(f"#!/bin/sh\n{broken}")
    with pytest.raises(build.BuildError, match=r"does not compile:\nBad\.java:1: error: no"):
        build.ensure(tmp_path / "a.jar")
    assert not (tmp_path / "a.jar").exists()


def test_the_same_classes_give_the_same_bytes(tmp_path: Path) -> None:
    names = ["b/B.class", "a/A.class", "a/A$1.class"]
    for folder, order, time in (("one", names, 1_000_000_000), ("other", names[::-1], 1_700_000_000)):
        for name in order:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
            os.utime(path, (time, time))
        build._pack(tmp_path / folder, tmp_path / f"{folder}.jar", "ab" * 32)
    assert (tmp_path / "one.jar").read_bytes() == (tmp_path / "other.jar").read_bytes()
    assert build.jar_hash(tmp_path / "one.jar") == "ab" * 32
    assert zipfile.ZipFile(tmp_path / "one.jar").namelist() == [build.MANIFEST, *sorted(names), PROVIDER]


PROGRAM = """
import sys
from pathlib import Path

import sealberg, sealberg.spark
from sealberg.spark.jar import find_jar

folder, version = sys.argv[1:]
assert Path(sealberg.__file__).is_relative_to(sys.prefix), sealberg.__file__
assert find_jar().is_relative_to(sys.prefix), find_jar()
properties = {
    "type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/warehouse",
    "encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "ab" * 16,
}
spark = sealberg.spark.session(catalog="lake", properties=properties)
assert spark.version == version, spark.version
spark.sql("CREATE NAMESPACE lake.hr")
spark.sql("CREATE TABLE lake.hr.t (id bigint, name string) TBLPROPERTIES ('encryption.key-id' = 'hr')")
spark.sql("INSERT INTO lake.hr.t SELECT id, concat('name-', id) FROM range(50)")
spark.sql("DELETE FROM lake.hr.t WHERE id % 10 = 3")
print("found", *spark.sql("SELECT count(*), sum(id), max(name) FROM lake.hr.t WHERE id < 20").first())
spark.stop()
"""


class Installed(NamedTuple):
    """An environment with the wheel, and the variables of a machine that has a Java runtime and no JDK."""

    python: Path
    variables: dict[str, str]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """sdist of this checkout, wheel of the sdist, which compiles it, the wheel in a fresh environment without a JDK."""
    folder = tmp_path_factory.mktemp("wheel")
    programs = _programs_without_jdk(folder / "programs")
    jdk = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    left_out = {"JAVA_HOME", "SPARK_HOME", "PYTHONPATH", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"}
    jre = {name: value for name, value in jdk.items() if name not in left_out} | {"PATH": str(programs)}
    assert shutil.which("javac", path=jre["PATH"]) is None

    def made(what: str, where: Path, variables: dict[str, str]) -> Path:
        program = "import sys; from jvm import backend; print(getattr(backend, sys.argv[1])(sys.argv[2]))"
        command = [sys.executable, "-c", program, what, str(folder)]
        done = subprocess.run(command, cwd=where, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return folder / done.stdout.split()[-1]

    with tarfile.open(made("build_sdist", TOP, jdk)) as archive:
        assert not [name for name in archive.getnames() if name.endswith((".jar", ".class"))]
        archive.extractall(folder / "unpacked", filter="data")
    unpacked = next((folder / "unpacked").iterdir())
    planted = [unpacked / "build" / "sealberg.jar", unpacked / "jvm" / "sealberg.jar"]
    for place in planted:  # with the hash of the sources in its manifest, as anybody can write it
        place.parent.mkdir(exist_ok=True)
        (folder / "evil" / "sealberg").mkdir(parents=True, exist_ok=True)
        (folder / "evil" / "sealberg" / "Evil.class").write_bytes(b"evil")
        build._pack(folder / "evil", place, build.source_hash())
        assert build.jar_hash(place) == build.source_hash()
    wheel = made("build_wheel", unpacked, jdk)
    with zipfile.ZipFile(wheel) as packed:
        java = [name for name in packed.namelist() if name.endswith((".jar", ".java"))]
        assert java == ["sealberg/spark/sealberg.jar"]
        (folder / "packed.jar").write_bytes(packed.read(java[0]))
    with zipfile.ZipFile(folder / "packed.jar") as inside:
        assert "sealberg/Evil.class" not in inside.namelist()
        assert "sealberg/catalog/EncryptedCatalog.class" in inside.namelist()

    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    # What sealberg needs comes from here: a path is not a site, so the editable sealberg of this folder is not seen.
    there = sysconfig.get_path("purelib", vars={"base": str(venv), "platbase": str(venv)})
    (Path(there) / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(python, jre | {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"})


def _programs_without_jdk(folder: Path) -> Path:
    """Every program of PATH but those of the JDK, of which `java` alone is there."""
    folder.mkdir()
    java = Path(shutil.which("java") or "java")
    jdk = {path.name for path in java.resolve().parent.iterdir()} - {"java"}
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).iterdir() if Path(place).is_dir() else []:
            if program.name not in jdk and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@pytest.mark.timeout(1200)  # pip fetches Spark
def test_a_wheel_and_a_java_runtime_are_enough(installed: Installed, tmp_path: Path) -> None:
    """With the newest Spark, which pip installs beside the wheel."""
    variables = installed.variables | {"PYTHONPATH": str(bring_spark(NEWEST))}
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    variables["HOME"] = str(home)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [str(installed.python), str(tmp_path / "program.py"), str(tmp_path), NEWEST]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "found 18 174 name-9" in done.stdout
    assert {path.read_bytes()[:4] for path in (tmp_path / "warehouse").rglob("*.parquet")} == {b"PARE"}
    assert list(home.iterdir()) == [], "nothing is written into a home that may be read-only"
