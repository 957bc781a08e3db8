"""Hive catalogs, shared with Iceberg Java.

catalog     tables in a Hive Metastore
lock        the lock of a table, the same that Iceberg Java takes
table_form  a table in the Metastore as Iceberg Java writes it
"""
