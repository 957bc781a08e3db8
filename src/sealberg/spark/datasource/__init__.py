"""format("sealberg"): tables without a catalog of Spark's, without a jar, and under Spark Connect.

source  the data source: batch and streams, reading and writing
tasks   what a Python worker does for it
"""
