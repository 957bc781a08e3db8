"""The parts of `rekey`: new keys for the files of a table.

units     the files of a branch whose keys were made in a range of commits, each with its deletion vector
tasks     one file under a new key, wherever the runner works on it
batch     the files of one commit: copied, then exchanged for the old ones, also when others commit meanwhile
remains   what still opens with old keys after the job: snapshots, tags, metadata files
"""
