"""What a table is made of: metadata.json, manifest lists and manifests of version 3, in Java's form.

table_metadata      the model of metadata.json: PyIceberg's, and what it lacks
metadata_file       a metadata.json read, inflated and parsed within bounds
updates             the metadata updates that PyIceberg lacks
invariants          what may never happen to an encrypted table
version_upgrade     a table of version 1 or 2 becomes one of version 3
storage_properties  who may say how storage is reached
trust               what a catalog vouches for
metadata_diff       how two metadata documents differ
java_json           JSON as Iceberg Java writes it
schema_json         schemas, partition specs and sort orders as Iceberg Java writes them
clock               times of a table that never go back

manifest            manifests and manifest lists: what they hold, and how they are read
manifest_writer     manifests and manifest lists, written
manifest_codec      how they are compressed
manifest_avro       PyIceberg's Avro reader with exact doubles and bounded blocks
bounded_decoder     PyIceberg's compiled Avro decoder, kept inside its buffer
manifest_cache      decoded manifests, kept for the next plan
decode_cache        what was decoded once in this process
gc_pause            the garbage collector paused while many objects are made
"""
