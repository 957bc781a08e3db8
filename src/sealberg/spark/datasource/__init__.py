"""format("sealberg"): tables without a Spark catalog and without a jar, also under Spark Connect.

source  the data source: batch and streams, reading and writing
tasks   reading and writing in a Python worker
"""
