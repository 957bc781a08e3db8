"""A table as PyIceberg shows it: scans, transactions, commits.

base           a version 3 table, encrypted or not
catalog_table  a table of a catalog: it can be changed
static_table   a table without a catalog: its metadata.json, for reading
staged_table   a table that a transaction creates
plain_table    a table of version 1 or 2: PyIceberg's own, without the code that its metadata may name
transaction    append, overwrite, delete, upsert ...
staging        the steps of a transaction, committed as one
expiry         snapshots that expire, with their keys
cherrypick     a staged snapshot, published
update_snapshot  PyIceberg's way to add and remove whole data files
policy         what the operator's configuration demands of tables
purge          a table dropped with all of its files
"""
