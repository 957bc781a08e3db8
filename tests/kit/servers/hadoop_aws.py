"""Hadoop's connector for S3, in the version of PySpark's Hadoop, with as much of the AWS SDK as it calls."""

from __future__ import annotations

from pathlib import Path

from kit.programs.maven import bring_all

POM = Path(__file__).parents[2] / "java" / "hadoop-aws" / "pom.xml"


def hadoop_aws() -> list[str]:
    """The jars, for `spark.jars`."""
    return sorted(str(jar) for jar in bring_all(POM).glob("*.jar"))
