"""Where the jar with the Java side of the bridge is. It comes with the wheel; nothing is compiled here.

    installed from a wheel    sealberg.jar beside this file
    a checkout                build/sealberg.jar, which `make jar` compiles from jvm/src/main/java

The jar of a checkout must be of the present sources: its manifest holds their SHA-256.
One jar serves Spark 4.0 to 4.3, which the tests run: docs/decisions/0038-java-build.md says how. Another series may
lack what the jar uses, and would fail in the middle of a statement, so it is refused before Spark starts.
"""

from __future__ import annotations

import runpy
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
    _check_spark()
    packaged = HERE / "sealberg.jar"
    if packaged.exists():
        return packaged
    builder = CHECKOUT / "jvm" / "jar.py"
    if not builder.exists():
        raise ConfigError(f"{packaged} is missing, which comes with the wheel: install sealberg again from its wheel")
    return _of_checkout(builder)


def _check_spark() -> None:
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
