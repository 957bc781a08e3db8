"""Jobs: programs that work on whole tables.

    options ──plan()──> Plan: what will be read, written and removed ──execute()──> result: findings, exit code

    sealberg.jobs.verify.plan("hr.salaries", catalog="prod").execute()

core         an operation, and its options, from which commands and procedures are made
job          the shape of every job: Plan, PlanStep, Amount, Progress
runner       runs the files of a job on threads of this machine; sealberg.spark has the runner for Spark
task_io      the FileIO of a file's work: the storage, without the KMS and the catalog's database
row_filter   the filter of `where`
selection    the tables that a job works on: by name, by namespace, or all of a catalog
encrypt      copies a plaintext table, or a folder of Parquet files, into a new encrypted table
decrypt      the other way, with a reason for the audit log
verify       proves that tables are whole and sealed, or says what is not
checks       the checks of verify
stats        counts distinct values of columns, and writes them as encrypted statistics
partition_stats  counts rows, files and deletes of each partition, and writes them as encrypted statistics
stats_removal  removes statistics files
copying      what jobs share that copy files under other keys
expire       removes old snapshots, the files that only they used, and their keys; expire_result: what went
orphans      removes what lies in storage and no metadata names
erase        erases rows from all of a table, with a proof; erasure: its parts
erase_many   the same in many tables; erase_record: the record of it
removal      finds and deletes files that no snapshot needs
codes        the codes of findings
findings     the result of verify: findings, what was not checked, facts about tables and keys
key_jobs     the shape of jobs that change keys and no file
rotate       a fresh KEK
rewrap       KEKs under the newest version of their master key, with a proof
prune_keys   removes keys that nothing needs
keys         which master key opens what, ages, versions, what is due; key_health: whether it still does
shred        destroys access to a table for good; shred_proof: what that rests on; shred_record: what was done
record       what the records of jobs have in common
key_users    which tables need a master key, in every configured catalog
key_tree     the KEKs of a table with age and state
compact      rewrites small files and files with deleted rows, and merges manifests
compaction   the parts of compact
rewrite_manifests   merges manifests, without touching data files
rewrite_position_delete_files   merges deletion vectors and position deletes into few Puffin files
inspect      what files are, by their bytes; inspect_table: what a table is; inspect_target: what a name means
report       the result of verify as a page
rekey            new data keys for the files of a table; rekeying: its parts
change_master    a table gets another master key: a new table takes its place
replacement      the metadata of that new table; replaced_table: what is deleted with the old one

A plan changes nothing. Only `execute` writes, and only what the plan shows.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sealberg.jobs import change_master as change_master
    from sealberg.jobs import compact as compact
    from sealberg.jobs import decrypt as decrypt
    from sealberg.jobs import encrypt as encrypt
    from sealberg.jobs import rekey as rekey
    from sealberg.jobs import rewrite_manifests as rewrite_manifests
    from sealberg.jobs import rewrite_position_delete_files as rewrite_position_delete_files
    from sealberg.jobs import verify as verify
else:

    def __getattr__(name: str) -> Any:
        """A job by its name: `sealberg.jobs.verify`."""
        try:
            return import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
