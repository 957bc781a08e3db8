"""Iceberg Java's own tables, made again from nothing.

    python -m vectors.generate.java FOLDER                 all tables of Iceberg Java 1.12.0
    python -m vectors.generate.java FOLDER --release 1.11.0    those of 1.11.0, with its two mistakes
    python -m vectors.generate.java FOLDER --only cow refs

release         the jars (by Maven), a Hive Metastore from Spark's own jars, and Spark on both
tables_1_12     what is done to each table, in SQL where Spark can, through Iceberg's API where it cannot
tables_1_11     the same for the older release
rows            what Java reads back from each snapshot, one line of JSON a row
Corpus.java     the steps that need Iceberg's API

FOLDER gets `wh/` (the tables) and `expected/` (the rows); `python -m vectors.generate.manifest` then enters them in
tables.json. Keys, ids and times are random, so the bytes differ each time; the kinds and the rows do not.
Needed: Java 17 with javac, Maven, and PySpark 4.1 (the extra `spark`). Nothing of sealberg is imported.
"""
