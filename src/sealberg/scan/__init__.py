"""Reading: from a filter to Arrow batches.

scan              PyIceberg's scan with the planner and the reader of this package
planner           which files a scan reads, and which deletes apply to each
manifest_reading  reads manifests on threads, several at once where a plan searches many
manifest_filter   which manifests a filter keeps, and which rows of each
manifest_tasks    manifests read and filtered by tasks of other processes
partition_counts  the files of each partition, counted
filter_literals   literals that the type of their column does not hold
column_filter     which files a filter keeps, by whole columns of statistics and partition values
manifest_search   whether a plan decodes the columns of its filter first
residuals         what is left of a filter once the partitions of files are known
ordered_values    columns of bounds and partition values, to be compared with literals
delete_index      which delete files apply to a data file
delete_loader     reads delete files: deletion vectors, position deletes, equality deletes
equality_deletes  rows by value
task_reader       one planned file as Arrow batches
data_file_reader  the rows of one data or delete file
narrowed_in       an `in` of many values, narrowed to the bounds of each file
projection        columns of a file as columns of the table, by field id
metadata_columns  _file, _pos, _row_id ...: columns that no file needs to have
ordered_streams   several streams read in parallel, their items in order
"""
