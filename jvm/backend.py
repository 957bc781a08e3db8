"""How a wheel and an sdist of sealberg come to have the jar for Spark: a PEP 517 backend around hatchling.

    sdist of a checkout     the sources are compiled; the jar travels as jvm/sealberg.jar
    wheel of an sdist       the jar of the sdist; neither a JDK nor pyspark is needed
    wheel of a checkout     the sources are compiled
    editable install        no jar: `make jar` builds it, and a test run does

Where sources are compiled, pyspark is a requirement of the build and a JDK must be there.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from jvm import jar

HERE = Path(__file__).resolve().parent
READY = HERE / "sealberg.jar"  # in an sdist
SPARK = "pyspark>=4.1,<4.2"  # most tests run on it; the oldest compiles the same bytes: tests/spark/test_link.py


def __getattr__(name: str) -> Any:
    """Everything else is hatchling's: it leaves out hooks that the front end does without."""
    return getattr(hatchling, name)


def _compiler_needs() -> list[str]:
    return [] if jar.source_hash() in (jar.jar_hash(READY), jar.jar_hash(jar.BUILT)) else [SPARK]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*hatchling.get_requires_for_build_wheel(config_settings), *_compiler_needs()]


def get_requires_for_build_sdist(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*hatchling.get_requires_for_build_sdist(config_settings), *_compiler_needs()]


class Jar(BuildHookInterface):
    """Puts the jar into what hatchling builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        try:
            made = READY if jar.jar_hash(READY) == jar.source_hash() else jar.ensure()
        except jar.BuildError as error:
            sys.exit(f"error: {error}")
        place = "jvm/sealberg.jar" if self.target_name == "sdist" else "sealberg/spark/sealberg.jar"
        build_data["force_include"][str(made)] = place
