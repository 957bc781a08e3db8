"""What the driver does for Spark's catalog: tables, plans and commits, asked for by Java.

bridge_server   the private socket by which the JVM reaches Python
dispatcher      requests of the JVM, each to the backend of its catalog
backend         the requests that Java can make, one method each
tables          create, describe and alter tables
alter           ALTER TABLE as one commit
namespaces      namespaces of a catalog
recent_tables   tables that queries have named a moment ago
metadata_tables snapshots, files, history ... as rows
read_options    options of a read
planning        which files a query reads, with which keys
scan_options    sizes of tasks, batches or rows
storage         how tasks reach the files of a table
hadoop_settings PyIceberg's storage settings as Hadoop's
session_settings  Iceberg's settings of a Spark session
partitions      PARTITIONED BY as a partition spec
arrow_json      Arrow's columns and values as JSON
any_schema      writes to a table that accepts any schema
aggregates      count, min and max from metadata
write_options   options of a write
written_files   files that tasks wrote, as data files of the table
commits         files that tasks wrote as one commit
stream_planning what Java asks about a stream
"""
