"""Encrypted tables in Spark SQL and DataFrames.

    session(...)              a ready session
    configure(builder, ...)   the same on a builder of one's own ...
    install(spark)            ... and once on the session that it made

    Spark SQL ── a catalog in Java, thin ──socket──> backend ── tables, plans, commits: all in Python
    tasks     ── Spark's own Parquet reader and writer, each file under its own key
              ── worker, a Python process beside a task, for what those cannot do

    jar        the Java side, found or compiled
    sessions   what a session must have, and the way into its JVM
    bridge_server  the private socket of the driver          protocol   frames and hello on it
    dispatcher     requests to the backends of catalogs      private_folder  folders that others cannot change
    backend    the verbs that Java asks for, errors as values
    types      schemas, between Spark and Iceberg            filters    Spark's filters as Iceberg's
    tables     create, describe, alter                       plan       which files, with which keys
    partitions PARTITIONED BY, as a spec of Iceberg          writes     files that tasks wrote, as one commit
    rows_of    metadata tables                               arrow_json their columns and rows, for Java
    aggregates counts and bounds, out of metadata            named      tables that queries have named
    read_options write_options                               options of one read, of one write
    session_settings catalog_options                         what the session says: spark.wap.*, spark.sql.*
    scan_options                                             how rows come to Spark
    any_schema                                               rows whose columns are not the table's
    storage    how tasks reach the files                     hadoop_settings  storage settings in Hadoop's names

    worker     Avro files, equality deletes ...              channel    the pipe between it and its task
    work       what the driver hands to it                   arrow      columns, between a scan and Spark

    streams    which files come next in a stream             epochs     each batch is committed once
    source     format("sealberg"), by Python workers: for Spark Connect, and where there is no jar

pyspark is imported when one of the three is called, and nowhere outside this folder.
"""

from __future__ import annotations

from sealberg.spark.sessions import configure, install, session

__all__ = ["configure", "install", "session"]
