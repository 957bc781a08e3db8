"""Procedures: CALL prod.system.NAME(...), SHOW PROCEDURES, DESCRIBE PROCEDURE.

signature    a procedure: parameters, result columns, function
operation    the procedure of an operation, made from its options
registry     all procedures by name, and the answers to the JVM's requests
definitions  what Iceberg's DDL says: partition fields, write order, identifier fields
definition_checks  what must hold before such a statement changes a table
refs         what Iceberg's DDL says of branches and tags
maintenance  expire_snapshots, rewrite_data_files and others of Iceberg, by sealberg's jobs
keys         rotate, rewrap, prune_keys, keys, change_master, rekey, erase, shred
moves        encrypt, snapshot, migrate
few_names    the names in few manifests, read by the driver
unused_arguments  arguments that say how the work is done
where        the filter of rows and files, which Spark has resolved
audits       verify and inspect
snapshots    rollback, cherry-pick, fast-forward, register: Iceberg's procedures that move refs
"""
