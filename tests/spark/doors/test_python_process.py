"""The Python process behind a JVM: where it is found, what it is told, and what happens when one of the two dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from kit.programs.doors import Door, Lake, Refused, java_job
from sealberg.errors import ConfigError
from sealberg.spark.local_disks import check_local_disks
from sealberg.spark.network import check_network


def python_of(door: Door) -> int:
    """The process id of the Python that the door's JVM has started."""
    jvm = door.pid
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            facts = status.read_text()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if f"\nPPid:\t{jvm}\n" in facts and b"sealberg.spark.driver" in command:
            found.append(int(status.parent.name))
    [only] = found
    return only


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_either_side_may_die(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path, "prod", "other")
    moved = lake.folder / "home" / "properties.yaml"
    (lake.folder / "home" / ".pyiceberg.yaml").rename(moved)
    lake.conf["spark.sealberg.properties-file"] = str(moved)
    lake.conf["spark.sql.catalog.other.s3.secret-access-key"] = "canary"
    with java_job(lake) as door:
        door.run("CREATE NAMESPACE prod.hr")
        with pytest.raises(Refused, match=r"spark\.sql\.catalog\.other\.s3\.secret-access-key holds a secret"):
            door.run("SHOW NAMESPACES IN other")
        first = python_of(door)
        os.kill(first, signal.SIGSTOP)  # so that it dies while a statement waits for its answer
        threading.Timer(2, os.kill, (first, signal.SIGKILL)).start()
        with pytest.raises(Refused, match=rf"process {first} has ended with exit code 137.*starts a new one"):
            door.run("SHOW NAMESPACES IN prod")
        assert door.run("SHOW NAMESPACES IN prod") == [["hr"]]
        second = python_of(door)
        assert second != first
        os.kill(door.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while Path(f"/proc/{second}").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not Path(f"/proc/{second}").exists()


def test_a_python_without_sealberg_and_an_open_network_are_refused(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    plain = tmp_path / "plain-python"
    plain.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')  # no site-packages
    plain.chmod(0o755)
    lake.conf["spark.sealberg.python"] = str(plain)
    with (
        java_job(lake) as door,
        pytest.raises(Refused, match=rf"{plain}, has no sealberg\. Run `{plain} -m pip install"),
    ):
        door.run("SHOW NAMESPACES IN prod")
    lake.conf |= {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"}
    lake.conf["spark.io.encryption.enabled"] = "false"  # Spark itself asks for a secret where it is on
    with pytest.raises(ConfigError) as known:
        check_network(lake.conf)
    with java_job(lake) as door, pytest.raises(Refused) as caught:
        door.run("SHOW NAMESPACES IN prod")
    assert str(known.value) in str(caught.value)


def test_local_disks_in_the_clear_are_refused_unless_they_are_allowed(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path)
    lake.conf["spark.io.encryption.enabled"] = "false"
    with pytest.raises(ConfigError) as known:
        check_local_disks(lake.conf)
    with java_job(lake) as door:
        door.run("SET spark.sealberg.allowClearDisks=true")  # of a session, which allows nothing
        with pytest.raises(Refused) as caught:
            door.run("SHOW NAMESPACES IN prod")
    assert str(known.value) in str(caught.value)
    lake.conf["spark.sealberg.allowClearDisks"] = "true"
    with java_job(lake) as door:
        assert door.run("SHOW NAMESPACES IN prod") == []
