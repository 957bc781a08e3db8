"""The image of deploy/: linters pass, and its entrypoint starts what Spark on Kubernetes asks for.

No container is built here. docs/deploy.md says what was run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
KUBERNETES = "org/apache/spark/deploy/k8s/"


def linted(linter: str, file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BIN / linter, file], capture_output=True, text=True, check=False)


def test_the_dockerfile_passes_hadolint(tmp_path: Path) -> None:
    done = linted("hadolint", DEPLOY / "Dockerfile")
    assert done.returncode == 0, done.stdout
    (tmp_path / "Dockerfile").write_text((DEPLOY / "Dockerfile").read_text().replace(":bookworm-slim", ":latest"))
    assert "DL3007" in linted("hadolint", tmp_path / "Dockerfile").stdout, "hadolint sees a tag that moves"


def test_the_entrypoint_passes_shellcheck() -> None:
    done = linted("shellcheck", DEPLOY / "entrypoint.sh")
    assert done.returncode == 0, done.stdout


def test_the_image_installs_extras_and_packages_that_exist() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    extras = re.search(r"^ARG EXTRAS=(\S+)$", dockerfile, re.MULTILINE)
    assert extras is not None
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[1].split(",")) <= set(known)
    for copied in re.findall(r"^COPY (.*) \S+$", dockerfile, re.MULTILINE):
        for source in copied.split():
            assert source.startswith("dist/") or (ROOT / source).is_file(), source


def test_the_settings_of_the_image_are_those_of_spark_conf() -> None:
    from sealberg.spark.sessions import settings

    lines = (DEPLOY / "spark-defaults.conf").read_text().splitlines()
    given = dict(line.split() for line in lines if not line.startswith("#"))
    wanted = settings("prod", "sealberg.jar")
    assert wanted.pop("spark.jars") == "sealberg.jar", "the image has the jar among Spark's own"
    assert given == wanted


@pytest.fixture
def entrypoint(tmp_path: Path) -> list[str]:
    """The command of the entrypoint, with programs that print their arguments where Spark and Java would be."""
    for program in ("bin/spark-submit", "bin/java"):
        path = tmp_path / program
        path.parent.mkdir(exist_ok=True)
        path.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        path.chmod(0o700)
    variables = [f"PATH={tmp_path}/bin:{os.environ['PATH']}", f"SPARK_HOME={tmp_path}"]
    return ["env", "-i", *variables, "{}", "bash", str(DEPLOY / "entrypoint.sh")]


def started(entrypoint: list[str], variables: dict[str, str], *arguments: str) -> list[str]:
    at = entrypoint.index("{}")
    given = [f"{name}={value}" for name, value in variables.items()]
    command = [*entrypoint[:at], *given, *entrypoint[at + 1 :], *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_driver_is_submitted_in_client_mode(entrypoint: list[str], tmp_path: Path) -> None:
    lines = started(entrypoint, {"SPARK_DRIVER_BIND_ADDRESS": "10.1.2.3"}, "driver", "--class", "Job", "a b.jar")
    assert lines == [
        f"{tmp_path}/bin/spark-submit",
        *("--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.1.2.3", "--class", "Job", "a b.jar"),
    ]


def test_an_executor_gets_its_options_in_order_and_its_facts(entrypoint: list[str], tmp_path: Path) -> None:
    facts = {
        "--driver-url": ("SPARK_DRIVER_URL", "spark://CoarseGrainedScheduler@driver:7078"),
        "--executor-id": ("SPARK_EXECUTOR_ID", "1"),
        "--cores": ("SPARK_EXECUTOR_CORES", "2"),
        "--app-id": ("SPARK_APPLICATION_ID", "spark-1"),
        "--hostname": ("SPARK_EXECUTOR_POD_IP", "10.1.2.4"),
        "--resourceProfileId": ("SPARK_RESOURCE_PROFILE_ID", "0"),
        "--podName": ("SPARK_EXECUTOR_POD_NAME", "pod-1"),
    }
    variables = dict(facts.values()) | {"SPARK_EXECUTOR_MEMORY": "1g", "SPARK_CONF_DIR": "/opt/spark/conf"}
    variables |= {"SPARK_CLASSPATH": "/more.jar", **{f"SPARK_JAVA_OPT_{i}": f"-Dx={i} {i}" for i in range(11)}}
    assert started(entrypoint, variables, "executor") == [
        f"{tmp_path}/bin/java",
        *(f"-Dx={i} {i}" for i in range(11)),
        *("-Xms1g", "-Xmx1g", "-cp", f"/opt/spark/conf:/more.jar:{tmp_path}/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *(word for option, (_, value) in facts.items() for word in (option, value)),
    ]


def test_any_other_command_is_run_as_it_is(entrypoint: list[str]) -> None:
    assert started(entrypoint, {}, "echo", "a  b") == ["a  b"]


def test_variables_and_settings_of_kubernetes_are_those_of_spark() -> None:
    """Names in the entrypoint and in docs/deploy.md, in the classes of the installed Spark."""
    import pyspark

    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        variables = classes.read(f"{KUBERNETES}Constants$.class").decode("latin-1")
        settings = classes.read(f"{KUBERNETES}Config$.class").decode("latin-1")
        arguments = classes.read("org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend$.class").decode(
            "latin-1"
        )
    entrypoint = (DEPLOY / "entrypoint.sh").read_text()
    used = set(re.findall(r"\bSPARK_[A-Z_]+", entrypoint)) - {"SPARK_HOME"}
    assert len(used) > 8
    assert [name for name in sorted(used) if name not in variables] == []
    options = set(re.findall(r"(--[a-zA-Z-]+) \"\$SPARK", entrypoint))
    assert len(options) == 7
    assert [option for option in sorted(options) if option not in arguments] == []
    named = set(re.findall(r"spark\.kubernetes(?:\.[a-z][a-zA-Z]*)+", (ROOT / "docs" / "deploy.md").read_text()))
    assert named
    # Spark writes some names as a prefix and an ending.
    ends = {name: f".{name.rpartition('.')[2]}" for name in named}
    unknown = [
        name
        for name, end in ends.items()
        if not (name in settings or (name.removesuffix(end) in settings and end in settings))
    ]
    assert unknown == []
