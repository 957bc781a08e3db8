"""The Python process that a JVM starts: its hello, its properties, its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sealberg.errors import AccessDeniedError, ConfigError
from sealberg.spark.driver.__main__ import read_properties
from sealberg.spark.protocol.frames import PROTOCOL, read_frame, write_frame
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOG = """
catalog:
  prod:
    type: sql
    uri: sqlite:///{folder}/c.db
    warehouse: file://{folder}/wh
    encryption.kms-type: memory
    encryption.kms.memory.key.hr: abababababababababababababababab
"""


@contextmanager
def started(hello: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    command = [sys.executable, "-P", "-m", "sealberg.spark.driver"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def ask(place: dict[str, Any], *requests: dict[str, Any]) -> list[Any]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(place["path"])
        with connection.makefile("rb") as source, connection.makefile("wb") as sink:
            answers = []
            for request in ({"protocol": PROTOCOL, "token": place["token"]}, *requests):
                write_frame(sink, json.dumps(request).encode())
                answers.append(json.loads(read_frame(source) or b"null"))
            return answers[1:]


def properties_file(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "properties.yaml"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_catalogs_of_a_properties_file_are_served_until_the_jvm_ends(tmp_path: Path) -> None:
    path = properties_file(tmp_path, CATALOG.format(folder=tmp_path))
    with started({"protocol": PROTOCOL, "settings": [], "sealberg": __version__, "properties-file": path}) as (
        process,
        place,
    ):
        assert Path(place["path"]).parent.stat().st_mode & 0o777 == 0o700
        opened = {"catalog": "prod", "verb": "open-catalog", "arguments": {"options": {}}}
        created = {"catalog": "prod", "verb": "create-namespace", "arguments": {"namespace": ["hr"], "properties": {}}}
        listed = {"catalog": "prod", "verb": "list-namespaces", "arguments": {"namespace": []}}
        answers = ask(place, opened, created, listed)
        assert answers[0] == {"ok": False}
        assert answers[2] == {"ok": [["hr"]]}
        process.send_signal(signal.SIGINT)  # Ctrl-C in a shell cancels a query, and must not end this process
        assert ask(place, listed) == [{"ok": [["hr"]]}]
        assert process.stdin
        process.stdin.close()
        assert process.wait(60) == 0
        assert not Path(place["path"]).parent.exists()


def test_a_secret_among_the_options_of_spark_is_refused_by_name() -> None:
    with started({"protocol": PROTOCOL, "settings": []}) as (_, place):
        options = {"s3.secret-access-key": "canary"}
        [answer] = ask(place, {"catalog": "prod", "verb": "open-catalog", "arguments": {"options": options}})
        assert "spark.sql.catalog.prod.s3.secret-access-key holds a secret" in answer["error"]["text"]
        assert "canary" not in str(answer)


def test_a_jar_of_another_version_is_refused() -> None:
    with started({"protocol": PROTOCOL, "settings": [], "sealberg": "0.0.9"}) as (process, answer):
        assert f"has sealberg {__version__}, the jar is sealberg 0.0.9" in answer["failure"]["text"]
        assert process.wait(60) == 0


def test_an_unknown_setting_of_sealberg_is_refused() -> None:
    with started({"protocol": PROTOCOL, "settings": ["spark.sealberg.pyhton"]}) as (_, answer):
        assert "unknown setting spark.sealberg.pyhton" in answer["failure"]["text"]
        assert "known are spark.sealberg.python, " in answer["failure"]["text"]


def test_a_jvm_that_ends_at_once_leaves_no_process() -> None:
    command = [sys.executable, "-P", "-m", "sealberg.spark.driver"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    assert done.stdout == b""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("catalog: [secret-canary", "is not YAML"),
        ("uri: secret-canary\n", "expected the form of .pyiceberg.yaml"),
        ("catalog:\n  prod: secret-canary\n", "expected the form of .pyiceberg.yaml"),
    ],
)
def test_a_file_of_another_form_is_refused_without_its_content(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read_properties(properties_file(tmp_path, text))
    assert "canary" not in str(caught.value)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX systems have modes")
def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AccessDeniedError, match=r"properties\.yaml"):
        read_properties(properties_file(tmp_path, CATALOG, 0o644))
