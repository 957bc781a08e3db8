"""A table as PyIceberg shows it: scans, transactions, commits.

base           a version 3 table, encrypted or not
partitions_table  the partitions of a snapshot, for `inspect`
files_table    the files of snapshots, for `inspect`
catalog_table  a table of a catalog: it can be changed
static_table   a table without a catalog: its metadata.json, for reading
staged_table   a table that a transaction creates
plain_table    a table of version 1 or 2: PyIceberg's own, without properties that name code
old_metadata   removes metadata files that fell out of the log
transaction    append, overwrite, delete, upsert ...
staging        the steps of a transaction, committed as one
expiry         expires snapshots and their keys
statistics     statistics files with their keys
key_changes    changes of keys alone: a new KEK, rewrapped KEKs, without keys that nothing needs
retention      which snapshots and refs an expiry removes
reachable      the files that table metadata name
cherrypick     publishes a staged snapshot
update_snapshot  adds and removes whole data files, with PyIceberg's API
policy         what the operator's configuration demands of tables
own_folders    the folders of a table, and what in them may be removed
purge          drops a table and deletes its files
"""
