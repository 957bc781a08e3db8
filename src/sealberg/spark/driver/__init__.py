"""What the driver does for Spark's catalog: tables, plans and commits, as the requests of Java ask.

__main__        the process that a JVM starts where no Python program has called `install`
bridge_server   the private socket by which the JVM reaches Python
dispatcher      requests of the JVM, each to the backend of its catalog
backend         the requests that Java can make, each with the function that answers it
tables          find, create, alter and drop tables
descriptions    a table at a snapshot, as Java sees it
definitions     CREATE and REPLACE TABLE, checked
alter           ALTER TABLE as one commit
refusals        what PyIceberg refuses of a statement, as an error of sealberg
namespaces      namespaces of a catalog
java_kms        a KMS client that the JVM runs
recent_tables   tables that queries have named a moment ago
metadata_tables snapshots, files, history ... described and planned
read_options    options of a read
calls           what the JVM runs tasks for: calls of procedures, and plans
planning        which files a query reads, with which keys
planning_modes  whether a scan is planned by the driver or by tasks
planned_files   the messages for the files of a plan
partition_column  the metadata column _partition
scan_options    how a scan is split into tasks
storage         how tasks reach the files of a table
hadoop_settings PyIceberg's storage settings as Hadoop's
session_settings  Iceberg's settings of a Spark session
partitions      PARTITIONED BY as a partition spec
arrow_json      Arrow's columns and values as JSON
any_schema      writes to a table that accepts any schema
estimates       statistics of a scan, for Spark's optimiser
aggregates      count, min and max from metadata
write_options   options of a write
write_planning  what the tasks of a write must know
written_files   files that tasks wrote, as data files of the table
commits         files that tasks wrote as one commit
procedures      CALL: what procedures do
stream_planning offsets of a stream, and the files between two offsets
"""
