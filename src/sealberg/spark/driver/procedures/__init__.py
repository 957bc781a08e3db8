"""Procedures: CALL prod.system.NAME(...), SHOW PROCEDURES, DESCRIBE PROCEDURE.

signature    a procedure: parameters, result columns, function
calls        calls under way: tasks for the JVM, results from it
registry     all procedures by name, and the answers to the JVM's requests
audits       verify and inspect
snapshots    rollback, cherry-pick, fast-forward, register: Iceberg's procedures that move refs
"""
