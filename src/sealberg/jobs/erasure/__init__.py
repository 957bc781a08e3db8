"""The parts of `erase`.

names     what the filter means in every schema that the table has had
search    what holds the rows: data files, delete files, manifests, snapshots, refs
rewrite   new files without the rows, and manifests that do not name the old files, in one commit for each branch
partition_folders  empty folders that have an erased value in their name
resealing a fresh KEK for what stays, so that the KEK of what goes can go too
versions  what a bucket that keeps versions still has
result    what was erased, the proof, and what others may still have
"""
