"""Servers that tests talk to, each real where one can run: catalogs, databases, KMS, object stores; and proxies."""
