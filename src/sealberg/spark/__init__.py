"""Encrypted tables in Spark SQL and DataFrames.

    session(...)              a ready session
    configure(builder, ...)   the same on a builder of one's own ...
    install(spark)            ... and once on the session that it made

    Spark SQL ── a catalog in Java, thin ──socket──> backend ── tables, plans, commits: all in Python
    tasks     ── Spark's own Parquet reader and writer, each file under its own key
              ── worker, a Python process beside a task, for what those cannot do

    sessions         session, configure, install: what a session must have, and the way into its JVM
    jar              the Java side, found or compiled
    network          Spark's own network: what keeps keys and rows from others
    local_disks      what Spark writes to local disks, the same
    catalog_options  properties of a catalog from the session, the program and PyIceberg's configuration
    private_folder   folders that others cannot change
    protocol         the messages between Java and Python, and the frames that carry them
    types            schemas between Spark and Iceberg
    filters          Spark's filters as Iceberg's
    arrow            Arrow columns in the types that Spark knows
    error_text       an error as text, for Java

    metadata_tables  files, entries, snapshots ...: columns and rows
    job_runner       runs the files of a job as tasks of Spark

    driver           what the driver does for Spark's catalog: tables, plans, commits
    streaming        tables as streams
    worker           the Python process beside a task
    datasource       format("sealberg"), by Python workers: for Spark Connect, and where there is no jar

pyspark is imported when one of the three is called, and nowhere outside this folder.
"""

from __future__ import annotations

from sealberg.spark.sessions import configure, install, session

__all__ = ["configure", "install", "session"]
