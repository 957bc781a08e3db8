-- MERGE WITH SCHEMA EVOLUTION, and write-audit-publish.
CREATE TABLE strict (id bigint, name string);
INSERT INTO strict VALUES (1, 'a');
MERGE WITH SCHEMA EVOLUTION INTO strict USING (SELECT 1L AS id, 'merged' AS name, 10 AS extra) s ON strict.id = s.id WHEN MATCHED THEN UPDATE SET *;
MERGE WITH SCHEMA EVOLUTION INTO strict USING (SELECT 5L AS id) s ON strict.id = s.id WHEN NOT MATCHED THEN INSERT *;
CREATE TABLE audited (id bigint) TBLPROPERTIES ('write.wap.enabled' = 'true');
SET spark.wap.id = audit1;
INSERT INTO audited VALUES (1);
SELECT summary['wap.id'] FROM schema_evolution.audited.snapshots;
RESET spark.wap.id;
INSERT INTO audited VALUES (2);
SET spark.wap.branch = audit_branch;
INSERT INTO audited VALUES (3);
RESET spark.wap.branch;
SELECT * FROM audited;
SELECT * FROM schema_evolution.audited.branch_audit_branch;
