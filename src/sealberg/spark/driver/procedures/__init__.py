"""Procedures: CALL prod.system.NAME(...), SHOW PROCEDURES, DESCRIBE PROCEDURE.

signature    a procedure: parameters, result columns, function
calls        calls under way: tasks for the JVM, results from it
registry     all procedures by name, and the answers to the JVM's requests
definitions  what Iceberg's DDL says: partition fields, write order, identifier fields, branches, tags
maintenance  expire_snapshots, rewrite_data_files and others of Iceberg, by sealberg's jobs
keys         rotate, rewrap, prune_keys, keys, change_master, rekey, erase, shred
moves        encrypt, snapshot, migrate
filter_text  filters of SQL for PyIceberg's parser
audits       verify and inspect
snapshots    rollback, cherry-pick, fast-forward, register: Iceberg's procedures that move refs
"""
