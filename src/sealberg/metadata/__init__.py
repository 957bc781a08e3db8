"""The metadata of a table: metadata.json, manifest lists and manifests of version 3, in Java's form.

table_metadata      the model of metadata.json: PyIceberg's model plus the fields that it lacks
quick_snapshots     regular snapshots of metadata.json without pydantic's validators
long_lists          the long lists of a large metadata.json, checked as text
metadata_file       reads, decompresses and parses a metadata.json within limits
statistics          statistics files in table metadata, and the keys that a table needs
updates             the metadata updates that PyIceberg lacks
unneeded_keys       the entries of encryption-keys that nothing needs
invariants          the rules that every commit to an encrypted table must keep
number_bounds       numbers of types and transforms with which nothing can be computed
snapshot_refs       the snapshots of branches and tags are there, and the current one is that of main
spec_sources        transforms fit the columns that they are computed from
version_upgrade     upgrades a table of version 1 or 2 to version 3
table_places        the locations that metadata give, checked where they are set
storage_properties  who may set the properties of storage
trust               the record of the metadata that a catalog vouches for
metadata_diff       the differences between two metadata documents
java_json           JSON as Iceberg Java writes it
schema_json         schemas, partition specs and sort orders as Iceberg Java writes them
clock               timestamps of a table, which never go back

manifest            reads manifests and manifest lists
manifest_columns    the entries of a manifest as columns, with the fields that they inherit
manifest_column_reader  reads manifests as columns, and keeps the columns
manifest_groups     several manifests decoded at once
searched_columns    the columns of a manifest that filters look at
manifest_decoder    decodes manifests to the columns that they store
manifest_columns_ipc    some rows of these columns as Arrow IPC, for the tasks of a plan
manifest_fields     the fields of a manifest entry by field id
packed_column       columns of numbers and of bytes in few bytes
partition_types     the types of partition values, also of dropped columns
packed_groups       packed statistics by field id, lists and partition values
manifest_names      only the locations in manifests and manifest lists
manifest_writer     writes manifests and manifest lists
encoded_entries     entries of manifests as bytes, taken from other manifests column by column
avro_output         Avro files of a few forms, whose schemas are converted once
manifest_codec      the compression of manifests and manifest lists
manifest_avro       PyIceberg's Avro reader with exact doubles and bounded blocks
bounded_decoder     PyIceberg's compiled Avro decoder with bounds checks
manifest_cache      a cache of decoded manifests
decode_cache        a cache of decoded metadata, bounded by memory
packing_turn        one thread at a time packs and filters columns
gc_pause            pauses the garbage collector while many objects are created
"""
