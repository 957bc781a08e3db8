"""The `sealberg` command: parses arguments, prints results and sets exit codes. No logic.

A command of an operation is made from the options of the operation; others have a file each.

main       the command group: loads a command when it is named, turns errors into one line and a hint
console    output that all commands share: sizes, progress, JSON
values     how values are written: 12h, 5d, 2026-03-01, 128M, a,b
operation  the command of an operation, made from its options
job        what all jobs share: options, the plan, the question, progress
inspect    says what a file, a folder or a table is
verify     proves that tables are whole and sealed
compact    rewrites small files and files with deleted rows
rekey      gives the files of a table new data keys
change_master gives a table another master key
expire     removes old snapshots, their files and their keys
erase      erases rows from all of a table, with a proof
orphans    removes files that no metadata names
stats      counts distinct values of columns, or removes statistics
shred      destroys access to a table
verify_record checks the record of an erase or a shred
encrypt    copies a plaintext table or folder into an encrypted table
decrypt    copies an encrypted table into plaintext
open       decrypts one file
seal       encrypts one file of any kind
keystore   manages the local keystore
kms        checks a key management service
kms_options the options that name a key management service
trust      accepts metadata that another tool wrote
spark_conf prints the options for spark-submit
"""
