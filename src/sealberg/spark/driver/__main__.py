"""The Python process behind catalogs where no Python driver has called `install`: `python -m sealberg.spark.driver`.

A JVM starts it when a catalog is first used: spark-sql, the Thrift server, Spark Connect, a job in Java or Scala.

    JVM ──stdin──>    StartDriver      one line; the pipe stays open
        <──stdout──   DriverStarted    one line: the path of a socket and its token, or a failure
        ──socket──>   the same requests as from any JVM; the first for a catalog is OpenCatalog

The token goes through the pipe: the command line and the environment, which others can see, have no secret. The end of
stdin is the end of the JVM, however it ended, and then this process ends as well. Ctrl-C in a spark-sql shell cancels a
query and is sent to all processes of the terminal: this process ignores it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final, TextIO

from sealberg.errors import ConfigError, SealbergError
from sealberg.spark.catalog_options import PREFIX, check_settings, class_of, combined, options_of
from sealberg.spark.error_text import error_text
from sealberg.spark.protocol.calls import Failure
from sealberg.spark.protocol.frames import PROTOCOL
from sealberg.spark.protocol.processes import DriverStarted, OpenCatalog, StartDriver
from sealberg.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealberg.spark.driver.backend import Backend
    from sealberg.spark.driver.bridge_server import BridgeServer

PYTHON_SETTING: Final = "spark.sealberg.python"
PROPERTIES_FILE_SETTING: Final = "spark.sealberg.properties-file"


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What libraries print belongs to the log: stdout carries one line.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
    os._exit(0)  # connections of a JVM that is gone have nothing to wait for


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer the JVM's hello and serve its catalogs until `requests` ends."""
    line = requests.readline()
    if not line:
        return
    server: BridgeServer | None = None
    try:
        server = _started(StartDriver.from_json(json.loads(line)))
        answer = DriverStarted(server.path, server.token)
    except SealbergError as error:
        answer = DriverStarted(failure=Failure("error", error_text(error)))
    with answers:
        json.dump(answer.to_json(), answers)
        answers.write("\n")
    if server is not None:
        while requests.read(1 << 16):
            pass
        server.close()


def _started(hello: StartDriver) -> BridgeServer:
    _check_versions(hello)
    check_settings(hello.settings)
    given = read_properties(hello.properties_file)

    from sealberg.spark.driver.bridge_server import BridgeServer
    from sealberg.spark.driver.dispatcher import Dispatcher

    lock = threading.Lock()

    def open_catalog(name: str, request: OpenCatalog) -> Backend:
        with lock:  # a SQLite catalog makes its tables when it is first opened
            return _open_catalog(name, request, given)

    return BridgeServer(Dispatcher(open_catalog))


def _check_versions(hello: StartDriver) -> None:
    if hello.protocol != PROTOCOL or hello.sealberg not in (None, __version__):
        jar = hello.sealberg or f"of protocol {hello.protocol}"
        raise ConfigError(
            f"{sys.executable} has sealberg {__version__}, the jar is sealberg {jar}. Install the jar's version with "
            f"`{sys.executable} -m pip install 'sealberg[spark]=={jar}'`, or use the jar of the installed one"
        )


def _open_catalog(name: str, request: OpenCatalog, given: Mapping[str, Mapping[str, str]]) -> Backend:
    from sealberg.catalogs.load import configured_catalogs, load_catalog
    from sealberg.spark.driver.backend import Backend

    checked = options_of(name, {f"{PREFIX}{name}.{key}": value for key, value in request.options.items()})
    if not request.configured and name not in given and name not in configured_catalogs():
        raise ConfigError(
            f"no catalog {name} is configured: neither {PREFIX}{name} at the start of this application, nor "
            f"{PROPERTIES_FILE_SETTING}, nor PyIceberg's configuration on the driver's machine has this name. A "
            f"session cannot make a catalog; start Spark with --conf {PREFIX}{name}={class_of(name)}"
        )
    return Backend(load_catalog(name, **combined(name, checked, given.get(name, {}))))


def read_properties(path: str | None) -> dict[str, dict[str, str]]:
    """The properties of catalogs, by name, in a file of the form of .pyiceberg.yaml that nobody else can read."""
    if not path:
        return {}
    from pathlib import Path

    import strictyaml  # type: ignore[import-untyped]

    from sealberg.keys.keystore.private_file import read

    content, _ = read(Path(path))
    try:
        found = strictyaml.load(content.decode()).data
    except (UnicodeDecodeError, strictyaml.YAMLError) as error:
        # The parser's text quotes the lines around the mistake, and those can hold secrets.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{PROPERTIES_FILE_SETTING}={path} is not YAML{where}") from None
    catalogs = found.get("catalog") if isinstance(found, dict) else None
    if not isinstance(catalogs, dict) or not all(isinstance(one, dict) for one in catalogs.values()):
        raise ConfigError(
            f"{PROPERTIES_FILE_SETTING}={path} has no catalogs: expected the form of .pyiceberg.yaml, "
            "`catalog:`, below it the catalog's name, below it the catalog's properties"
        )
    return catalogs


if __name__ == "__main__":
    main()
