"""A process has one JVM for Spark, whose jars are fixed when it starts. Stop the session and the JVM together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stop(spark: SparkSession) -> None:
    """Stop the session and the JVM, so that a session with other jars can start in this process."""
    from pyspark import SparkContext

    spark.stop()
    context: Any = SparkContext
    gateway = context._gateway
    if gateway is None:
        return
    context._gateway = context._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with its standard input
    gateway.proc.wait(60)
