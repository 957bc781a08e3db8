"""The messages between the JVM and Python; Java has records of the same names in `sealberg.bridge`.

frames      bytes on the socket: the length of a frame, hello, requests one after the other
codec       a message as JSON and back; unknown and missing fields are errors
calls       a request of any kind, and the failure that may come back
processes   the Python process that a JVM starts
handles     the table, snapshot and schema that a query has seen
namespaces  SHOW, CREATE, ALTER and DROP NAMESPACE
tables      descriptions of tables; CREATE, ALTER, DROP and RENAME TABLE; read options
metadata_tables  reads of metadata tables
changes     the changes of an ALTER TABLE
filters     Spark's filters
scans       plans of batch reads, and aggregates
kms         a KMS client that is a class of Java
storage     how tasks reach the files of a table
writes      plans of writes, and commits
streams     streaming reads
procedures  CALL: parameters, tasks, results

The golden files in vectors/protocol hold every message; the tests of both sides parse each file and write it again.
The word `rows` means the rows of a metadata table or of the result of a procedure, and nothing else. Counts are
`record-count`, modes are `copy-on-write` and `merge-on-read`, the schema of a query is `query-schema`, deleted rows are
`positions`.
"""
