"""The parts of `compact`: which files, how they are rewritten, and how the new files are committed.

options    the options of Java's rewrite_data_files, and the sizes of files
selection  which files are rewritten, and which of them together
sorting    the order of rows in new files; zorder: the z-order
tasks      groups of files cut into tasks for the runner
rewrite    the work of one task: live rows of some files into new files
commit     new files in place of old ones, in one snapshot; conflicts with other writers
run        batches of groups, one after the other; conflicts are tried again
dangling   delete files that apply to no data file
result     what was done
"""
