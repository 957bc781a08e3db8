"""Where the jar with the Java side of the bridge is. It comes with the wheel; nothing is compiled here.

    installed from a wheel    sealberg.jar beside this file
    a checkout                build/sealberg.jar, which `make jar` compiles from jvm/src/main/java

The jar of a checkout must be of the present sources: its manifest holds their SHA-256.
One jar serves Spark 4.0 to 4.3, which the tests run: docs/decisions/0038-java-build.md says how. Another series may
lack what the jar uses, and would fail in the middle of a statement, so it is refused before Spark starts.
"""

from __future__ import annotations

import os
import runpy
import shutil
from pathlib import Path
from typing import Final

from sealberg.errors import ConfigError

SPARK_AT_LEAST: Final = (4, 0)  # these two as in pyproject.toml
SPARK_BELOW: Final = (4, 4)
HERE: Final = Path(__file__).resolve().parent
CHECKOUT: Final = HERE.parents[2]


def find_jar() -> Path:
    """The jar for `spark.jars`.

    Raises:
        ConfigError: Spark is missing, too old or too new, or this installation or checkout has no jar.
    """
    check_spark()
    packaged = HERE / "sealberg.jar"
    if packaged.exists():
        return packaged
    builder = CHECKOUT / "jvm" / "jar.py"
    if not builder.exists():
        raise ConfigError(f"{packaged} is missing, which comes with the wheel: install sealberg again from its wheel")
    return _of_checkout(builder)


def check_java() -> None:
    """Refuse to start Spark where its scripts would find no Java, in plainer words than theirs.

    Raises:
        ConfigError: neither JAVA_HOME nor PATH has a `java`.
    """
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=f"{home}/bin" if home else None) is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "PATH has no java, and JAVA_HOME is not set"
        raise ConfigError(f"Spark needs Java 17 or newer, and {where}: install a JRE, or set JAVA_HOME")


def check_spark() -> None:
    """Refuse to go on without a PySpark that sealberg was tested with.

    Raises:
        ConfigError: Spark is missing, too old or too new.
    """
    try:
        import pyspark
    except ImportError:
        raise ConfigError("Spark is not installed: pip install 'sealberg[spark]' brings it") from None
    version = str(pyspark.__version__)
    series = tuple(map(int, version.split(".")[:2]))
    if series < SPARK_AT_LEAST:
        raise ConfigError(f"Spark {version} is too old: sealberg needs Spark 4.0 to 4.3")
    if series >= SPARK_BELOW:
        raise ConfigError(
            f"Spark {version} is too new for this sealberg, which was tested with Spark 4.0 to 4.3: install a newer "
            "sealberg, or pip install 'pyspark>=4.0,<4.4'"
        )


def _of_checkout(builder: Path) -> Path:
    build = runpy.run_path(str(builder))
    built: Path = build["BUILT"]
    if build["jar_hash"](built) != build["source_hash"]():
        found = "is of other sources" if built.exists() else "is missing"
        raise ConfigError(f"{built} {found}: run `make jar` in {CHECKOUT}, which compiles jvm/src/main/java")
    return built
