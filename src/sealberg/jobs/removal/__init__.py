"""Removes files that no snapshot of a table needs any more; for `expire`, `orphans` and `erase`.

    expired snapshots ──unreachable──> files by stage ──deletion──> removed, or left with the reason
                           └── minus everything that the newest metadata name

older_metadata   the metadata.json files before the current one, and the expired snapshots whose keys they hold
journal          the expired snapshots of a run that was killed
unreachable      the files that only expired snapshots used
deletion         deletes files in stages: a file goes before the file that names it
orphan_search    what lies in the folders of a table and that no metadata names
removable        the tables whose files may be removed
former_folders   the folders that a table has had
key_search       the metadata files in the folders of a table, with their keys
"""
