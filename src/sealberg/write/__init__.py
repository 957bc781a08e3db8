"""Writing: from rows to a snapshot.

context           WriteContext: metadata, storage, keys and locations of the table that is written
data_writer       rows to data files, each under its own key
partition_split   rows of each partition
stream_writer     streams of rows to files of the target size, with bounded memory
file_stream       one data file, written batch by batch
metrics           column metrics of a Parquet file for its manifest entry
row_changes       changes of rows as changes of files: copy-on-write and merge-on-read
commit_outcome    whether a failed commit was applied, as a type
staged_files      files that no commit names yet, and who deletes them
snapshot_builder  changes of files as manifests, a manifest list, a snapshot and its keys
manifest_rewrite  the entries of many manifests in few, clustered by partition
snapshot_summary  the summary of a snapshot, with Java's fields
conflicts         whether a change is still valid after what others committed
sketch_file       sketches of columns as an encrypted statistics file
partition_statistics_file  numbers of partitions as an encrypted statistics file
retry             how often and for how long a commit is tried again
"""
