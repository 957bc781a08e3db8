"""What jobs share that copy the files of a table under other keys: encrypt, decrypt and rekey.

source           the snapshots, manifests and files of a table to copy; folder: Parquet files without a table
rewrap_task      copies one Parquet file without decoding it, on a thread or in a task of Spark
decoded_copy     copies the rows of a Parquet file that cannot be re-wrapped
file_copy        copies one data or equality delete file, whatever its format
position_copies  position deletes and deletion vectors, with the locations of the copies
target           the storage, keys and names of the copies; entries: their manifest entries
mirror           the snapshots of the copy: new manifests, lists and keys
comparison       compares the copy with its source
work_table       remembers what an unfinished copy has done; leftovers: what killed runs have left
copier           the whole copy, until it has the target's name; catch_up: what the source got since
result           what a copy did; plans: what there is to copy
purge_source     removes the plaintext table whose place its copy has taken, and searches for what is left
"""
