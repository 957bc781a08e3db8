"""The connectors by which Spark's tasks reach object stores, for PySpark's Hadoop; the jars, for `spark.jars`.

hadoop_aws()      S3A, with the modules of the AWS SDK that it calls
hadoop_azure()    ABFS
gcs_connector()   Google's connector
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kit.programs.maven import bring, bring_all

JAVA: Final = Path(__file__).parents[2] / "java"
GCS_CONNECTOR: Final = "com.google.cloud.bigdataoss:gcs-connector:3.1.9:jar:shaded"


def hadoop_aws() -> list[str]:
    return sorted(str(jar) for jar in bring_all(JAVA / "hadoop-aws" / "pom.xml").glob("*.jar"))


def hadoop_azure() -> list[str]:
    return sorted(str(jar) for jar in bring_all(JAVA / "hadoop-azure" / "pom.xml").glob("*.jar"))


def gcs_connector() -> list[str]:
    return [str(bring(GCS_CONNECTOR)[0])]
