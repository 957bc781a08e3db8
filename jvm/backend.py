"""How a wheel of sealberg comes to have the jar for Spark: a PEP 517 backend around hatchling.

    wheel               the sources are compiled, always: pyspark is a requirement of the build, and a JDK must be there
    sdist               the sources alone
    editable install    no jar: `make jar` builds it, and a test run does

No jar that lies around is packed: what a jar says of its sources it says itself, and whoever plants one writes that.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from jvm import jar

SPARK = "pyspark>=4.1,<4.2"  # most tests run on it; the oldest compiles the same bytes: tests/spark/test_link.py


def __getattr__(name: str) -> Any:
    """Everything else is hatchling's: it leaves out hooks that the front end does without."""
    return getattr(hatchling, name)


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    return [*hatchling.get_requires_for_build_wheel(config_settings), SPARK]


class Jar(BuildHookInterface):
    """Puts the jar into the wheel that hatchling builds."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or self.target_name != "wheel":
            return
        self._folder = tempfile.TemporaryDirectory()
        made = Path(self._folder.name) / "sealberg.jar"
        try:
            jar.build(made, jar.installed_spark())
        except jar.BuildError as error:
            sys.exit(f"error: {error}")
        build_data["force_include"][str(made)] = "sealberg/spark/sealberg.jar"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        if self.target_name == "wheel" and version != "editable":
            self._folder.cleanup()
