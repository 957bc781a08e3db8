"""A whole table: version 3 metadata in Java's form, manifests, snapshots, scans.

java_json    JSON as Java writes it
schema_json  schemas, specs and sort orders as Java writes them
metadata     the model of metadata.json
manifests    manifests and manifest lists, read and written
"""
