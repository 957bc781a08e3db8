"""A whole table: version 3 metadata in Java's form, manifests, commits, scans.

what a table is made of
    java_json schema_json   JSON, schemas, specs and orders as Java writes them
    metadata updates rules  the model of metadata.json, its changes, and what may never change
    policy                  what the operator's configuration demands: required encryption, default keys
    version_upgrade         from format version 1 or 2 to 3
    trust metadata_diff     what a catalog vouches for, and how two metadata documents differ
    manifests summary       manifests, manifest lists, and what a snapshot says of itself
    manifest_avro           their Avro, with doubles read exactly
reading
    plan bounds             which files, and which deletes concern each
    cache manifest_cache    what was decoded once, for the next plan
    collector               Python's, at rest while that is done
    deletes equality        deletion vectors, position deletes, equality deletes
    data_files project read in_order lineage    a file's rows as rows of the table
    scan sealed_table open  what PyIceberg calls a scan and a table
writing
    write row_changes       rows to files; changes of rows to changes of files
    write_context           what every writer needs to know of its table
    staged_files            files that no commit names yet, and who deletes them
    commit manifest_writer  changes of files to manifests, a manifest list, a snapshot and its keys
    staging transaction     steps staged and committed as one; what a transaction can do
    retry                   how often and how long to try again
    conflicts               whether a change is still right after what others committed
    cherrypick              a staged snapshot published
    expiry clock            snapshots that go, with their keys; times that never go back
    catalog_table purge     a table that a catalog keeps
    catalogs                SQL (SQLite, PostgreSQL, in memory)

pyiceberg_0_12 and pyiceberg_0_12_rest are the only places where private names of PyIceberg are used.
"""
