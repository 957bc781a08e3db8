"""What jobs share that copy the files of a table under other keys.

rewrap_task   copies one Parquet file without decoding it, on a thread or in a task of Spark
"""
