"""The checks of `verify`, from the catalog down to single values.

table_state      the table and the state of its catalog
keys             encryption-keys: missing, altered, unused keys; the ages of KEKs
key_use          the key of each file: weak, shared by two files, in the clear
history          table metadata against themselves, and against the older files of their log
past             what the older files say: former folders, and the keys that were wanted
snapshots        snapshots, refs, manifest lists: sequence numbers, row ids, totals
manifests        manifests and their entries against the manifest list
manifest_counts  counts, sequence numbers and partition summaries of one manifest
summaries        the summary of a snapshot against what it added, removed and has
claims           what an entry claims of columns, by itself
files            one data or delete file, wherever the runner works on it
parquet          a Parquet file: every module, and its footer against its manifest entry
bounds           bounds and partition values against the values of a file
leaves           the leaf columns of a decoded column, with the counts that Iceberg keeps
rows             every row of a file, for `--deep`
statistics       statistics files
storage          what lies in the table's location: plaintext, orphans, old metadata with keys
forms            the forms of files that no metadata name
unlogged         metadata files that neither the catalog nor the log names
outcome          collects findings and counts
"""
