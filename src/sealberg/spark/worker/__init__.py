"""The Python process beside a task of Spark: `python -m sealberg.spark.worker`.

__main__  reads Avro files and equality deletes, writes Avro files
computed_columns  _spec_id, _partition and _deleted
payload   what the driver hands to the process
channel   the pipe between the process and its task
"""
