"""The doors of Spark: ways to run SQL on a catalog that only configuration names.

    with spark_sql(lake) as door:             the spark-sql shell, its stdin and stdout
    with java_job(lake) as door:              a Java program by spark-submit
    with thrift_server(lake) as url, jdbc(url, "ada") as door:
    with connect_server(lake) as url, connect(lake, url) as door:
    with connect(lake, "local[2]") as door:   Spark Connect with a server in the client's own JVM
        door.run("SELECT ...") ──> [["1", "Ada"], ...]      or raises Refused with what the door said

A Lake is a SQLite catalog `prod` with a key, in PyIceberg's configuration in a home folder of its own.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import pyspark

from kit.programs.commands import compile_java, jdk
from kit.programs.spark import FRUGAL
from kit.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SPARK: Final = Path(pyspark.__file__).parent
JAVA: Final = Path(__file__).parents[2] / "java"
PATIENCE: Final = 150  # seconds until a JVM on a busy machine must have answered


class Refused(Exception):
    """A door answered a statement with an error."""


@dataclass
class Lake:
    """A catalog in a folder, and what Spark must be told of it."""

    folder: Path
    conf: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def create(cls, folder: Path, *names: str, **conf: str) -> Lake:
        jdk()  # or there is no Spark
        from sealberg.spark.jar import find_jar
        from sealberg.spark.sessions import settings

        home = folder / "home"
        home.mkdir(parents=True)
        lines = ["catalog:"]
        made = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.extraJavaOptions": FRUGAL,
        }
        for name in names or ("prod",):
            lines += [
                f"  {name}:",
                "    type: sql",
                f"    uri: sqlite:///{folder}/{name}.db",
                f"    warehouse: file://{folder}/{name}",
                "    encryption.kms-type: memory",
                f"    encryption.kms.memory.key.hr: {'ab' * 16}",
            ]
            made |= settings(name, str(find_jar()))
        (home / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n")
        (home / ".pyiceberg.yaml").chmod(0o600)
        made |= conf
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK", "PYICEBERG"))
        }
        environment = kept | {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYICEBERG_HOME": str(home)}
        return cls(folder, made, environment | {"PYSPARK_PYTHON": sys.executable})

    def options(self) -> list[str]:
        return [word for name, value in self.conf.items() for word in ("--conf", f"{name}={value}")]

    def data_files(self, catalog: str = "prod") -> list[Path]:
        return sorted((self.folder / catalog).rglob("data/**/*.parquet"))


class Door:
    """A program that takes SQL on a pipe, a statement a line, and answers with lines."""

    def __init__(self, requests: IO[str], answers: IO[str], log: Path, process: subprocess.Popen[bytes]) -> None:
        self._requests, self._answers, self._log = requests, answers, log
        self._give_up = process.kill  # which ends the answers
        self.pid = process.pid  # of the JVM, where spark-submit has become one

    def run(self, sql: str) -> list[list[str]]:
        """The rows of one statement; `sql` is one line without a semicolon."""
        self._requests.write(self.statement(sql))
        self._requests.flush()
        rows: list[list[str]] = []
        errors: list[str] = []
        while not self.is_end(line := self._line(sql)):
            if line.startswith("!"):
                errors.append(line[1:])
            elif not self.is_echo(line):
                rows.append(line.split("\t"))
        if errors or (errors := self.errors()):
            raise Refused(" ".join(errors))
        return rows

    def _line(self, sql: str) -> str:
        late = threading.Timer(PATIENCE, self._give_up)
        late.start()
        try:
            line = self._answers.readline()
        finally:
            late.cancel()
        if not line:
            raise AssertionError(f"the door closed at: {sql}\n{self._log.read_text()[-6000:]}")
        return line.rstrip("\n")

    def statement(self, sql: str) -> str:
        return sql + "\n"

    def is_end(self, line: str) -> bool:
        return line == "."

    def is_echo(self, line: str) -> bool:
        return False

    def errors(self) -> list[str]:
        return []


class _Shell(Door):
    """spark-sql echoes statements after its prompt, and writes errors to its log."""

    def __init__(self, requests: IO[str], answers: IO[str], log: Path, process: subprocess.Popen[bytes]) -> None:
        super().__init__(requests, answers, log, process)
        self._count = 0
        self._seen = 0

    def statement(self, sql: str) -> str:
        self._count += 1
        self._seen = self._log.stat().st_size
        return f"{sql};\nSELECT 'end-{self._count}';\n"

    def is_end(self, line: str) -> bool:
        return line == f"end-{self._count}"

    def is_echo(self, line: str) -> bool:
        return line.startswith("spark-sql (")

    def errors(self) -> list[str]:
        written = self._log.read_bytes()[self._seen :].decode(errors="replace").splitlines()
        quiet = ("Time taken", "WARNING")
        found = [line for line in written if line.strip() and not line.startswith(quiet) and " WARN " not in line]
        return found if any("Exception" in line or "Error" in line or line.startswith("[") for line in found) else []


@contextlib.contextmanager
def spark_sql(lake: Lake, *more: str) -> Iterator[Door]:
    in_memory = ["--conf", "spark.sql.catalogImplementation=in-memory"]  # unless the lake says something else
    command = [SPARK / "bin" / "spark-sql", "-S", *in_memory, *lake.options(), *more]
    with _piped(command, lake, "spark-sql") as (process, log):
        yield _Shell(*_pipes(process), log, process)


@contextlib.contextmanager
def java_job(lake: Lake, *more: str) -> Iterator[Door]:
    """A job by spark-submit, which answers through named pipes: they reach a driver that runs elsewhere, too."""
    pipes = Path(tempfile.mkdtemp(prefix="pipes-", dir=lake.folder))
    requests, answers = pipes / "requests", pipes / "answers"
    os.mkfifo(requests)
    os.mkfifo(answers)
    command = [
        SPARK / "bin" / "spark-submit",
        *lake.options(),
        *more,
        "--class",
        "SqlJob",
        sql_job(),
        requests,
        answers,
    ]
    with (
        _piped(command, lake, "java-job") as (process, log),
        _opened(requests, "w", process, log) as sink,
        _opened(answers, "r", process, log) as source,
    ):
        yield Door(sink, source, log, process)


@contextlib.contextmanager
def thrift_server(lake: Lake, authentication: str = "CUSTOM") -> Iterator[str]:
    """The URL for JDBC clients."""
    port = free_port()
    server = ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"]
    classes = compile_java(JAVA / "UserAsPassword.java", classpath=f"{SPARK}/jars/*")
    settings = {
        "hive.server2.thrift.port": port,
        "hive.server2.thrift.bind.host": "127.0.0.1",
        "hive.server2.authentication": authentication,
        "hive.server2.custom.authentication.class": "UserAsPassword",
        "hive.server2.long.polling.timeout": "100ms",  # a client that asks how far its statement is cannot cancel it
    }
    hive = [word for name, value in settings.items() for word in ("--hiveconf", f"{name}={value}")]
    command = [SPARK / "bin" / "spark-submit", *lake.options(), "--driver-class-path", classes, *server]
    command += ["spark-internal", *hive]
    with _piped(command, lake, "thrift-server") as (process, log):
        _wait_for(port, process, log)
        yield f"jdbc:hive2://127.0.0.1:{port}/"


@contextlib.contextmanager
def jdbc(lake: Lake, url: str, user: str) -> Iterator[Door]:
    classes = compile_java(JAVA / "JdbcClient.java")
    command = [jdk().java, "-cp", f"{classes}:{SPARK}/jars/*", "JdbcClient", url, user]
    with _piped(command, lake, f"jdbc-{user}") as (process, log):
        yield Door(*_pipes(process), log, process)


@contextlib.contextmanager
def connect_server(lake: Lake) -> Iterator[str]:
    """The URL for clients of Spark Connect, as start-connect-server.sh starts it."""
    port = free_port()
    server = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    binding = [
        "--conf",
        f"spark.connect.grpc.binding.port={port}",
        "--conf",
        "spark.connect.grpc.binding.address=127.0.0.1",
    ]
    command = [SPARK / "bin" / "spark-submit", *lake.options(), *binding, *server, "spark-internal"]
    with _piped(command, lake, "connect-server") as (process, log):
        _wait_for(port, process, log)
        yield f"sc://localhost:{port}"  # by another name, a client with a token asks for TLS


@contextlib.contextmanager
def connect(lake: Lake, url: str) -> Iterator[Door]:
    command = [sys.executable, "-m", "kit.programs.connect_client", url]
    if not url.startswith("sc:"):  # the client configures the server that it starts
        given = lake.folder / "conf.json"
        given.write_text(json.dumps({name: value for name, value in lake.conf.items() if name != "spark.master"}))
        command.append(str(given))
        lake.environment["SPARK_TESTING"] = "1"  # or every client takes port 15002, the server's setting or not
    with _piped(command, lake, "connect-client") as (process, log):
        yield Door(*_pipes(process), log, process)


def sql_job() -> Path:
    """A jar with the job, for spark-submit."""
    classes = compile_java(JAVA / "SqlJob.java", classpath=f"{SPARK}/jars/*")
    jar = classes / "sql-job.jar"
    if not jar.exists():
        made = classes / f"{os.getpid()}.jar"
        packer = jdk().javac.with_name("jar")
        subprocess.run([packer, "--create", "--file", made, "-C", classes, "SqlJob.class"], check=True)
        made.replace(jar)
    return jar


@contextlib.contextmanager
def _piped(command: Sequence[object], lake: Lake, name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    work = lake.folder / "work"
    work.mkdir(exist_ok=True)
    log = lake.folder / f"{name}.log"
    path = os.pathsep.join(filter(None, [lake.environment.get("PYTHONPATH"), str(Path(__file__).parents[2])]))
    environment = lake.environment | {"PYTHONPATH": path}
    with (
        log.open("ab") as err,
        subprocess.Popen(
            list(map(str, command)),
            cwd=work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process, log
        finally:
            if process.stdin:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20 if "server" not in name else 0)
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[str], IO[str]]:
    """Lines end with \\n alone: spark-sql puts \\r into a long statement that it echoes."""
    assert process.stdin is not None
    assert process.stdout is not None
    return io.TextIOWrapper(process.stdin), io.TextIOWrapper(process.stdout, newline="\n")


def _opened(pipe: Path, mode: str, process: subprocess.Popen[bytes], log: Path) -> IO[str]:
    """A named pipe, once the other side has opened it; an error if the other side has ended."""
    if mode == "r":
        return pipe.open()
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # fails until somebody reads
        except OSError:
            assert process.poll() in (None, 0), log.read_text()[-6000:]
            assert time.monotonic() < deadline, log.read_text()[-6000:]
            time.sleep(0.1)
            continue
        os.set_blocking(descriptor, True)
        return os.fdopen(descriptor, "w")


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    import socket

    deadline = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < deadline, log.read_text()[-6000:]
        time.sleep(0.2)
