"""The Python process beside a task of Spark: `python -m sealberg.spark.worker`.

__main__  reads Avro files and equality deletes, writes Avro files
payload   what the driver hands to the process
channel   the pipe between the process and its task
"""
