"""Metadata tables, `hr.salaries.files` for instance: columns and rows as in Iceberg Java. No key is in any of them.

kinds              which tables there are, and of how many snapshots each is
schemas            the columns of each
unified_partition  the fields of all partition specs as one struct
entry_rows         files and entries: one row for each line of a manifest
position_deletes   one row for each deleted position
log_rows           snapshots, history, refs, metadata_log_entries, keys: out of the table's metadata
manifest_rows      manifests, all_manifests: one row for each line of a manifest list
partition_rows     partitions: the files of each partition, counted
pieces             a table as pieces that can be read one by one, on the driver or in tasks
"""
