"""Procedures that make encrypted tables of plaintext tables: the job `encrypt`, also by Iceberg's names.

encrypt    a plaintext table of this catalog into a new encrypted table
snapshot   the same, with the arguments of Iceberg's procedure
migrate    the same, and the names are exchanged: the old table stays as a backup
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sealberg.errors import ConfigError
from sealberg.jobs import encrypt as encrypt_job
from sealberg.jobs.selection import dotted
from sealberg.keys.manager import KEY_ID_PROPERTY
from sealberg.spark.driver.procedures.signature import OPTIONS, TABLE, Procedure, columns, optional, required
from sealberg.spark.driver.procedures.unused_arguments import positive, unused

if TYPE_CHECKING:
    from sealberg.jobs.copying.result import CopyResult
    from sealberg.spark.driver.procedures.signature import CallContext

Rows = list[tuple[Any, ...]]
BACKUP: Final = "_backup_"  # as in Iceberg
SOURCE: Final = required("source_table", "string", "a plaintext table of this catalog")
PROPERTIES: Final = optional("properties", OPTIONS, "encryption.key-id is required")
PARALLELISM: Final = optional("parallelism", "integer", "no effect")
MISSING: Final = optional("ignore_missing_files", "boolean", "refused if true")


def encrypt(call: CallContext) -> Rows:
    done = _encrypted(
        call,
        call.identifier("source_table"),
        call.identifier(),
        call.required("key_id"),
        history=bool(call["history"]),
        sync=bool(call["sync"]),
        swap=bool(call["swap"]),
    )
    return [(done.files + done.earlier, done.rows, done.snapshots, done.swapped, str(done))]


def snapshot(call: CallContext) -> Rows:
    done = _encrypted(
        call, call.identifier("source_table"), call.identifier(), _key_id(call), location=call["location"]
    )
    return [(done.files + done.earlier,)]


def migrate(call: CallContext) -> Rows:
    table = call.identifier()
    if call["drop_backup"]:
        raise ConfigError(
            "migrate: the argument drop_backup is not supported: look at the new table first, then drop the plaintext "
            "table with DROP TABLE ... PURGE"
        )
    name = call["backup_table_name"] or f"{table[-1]}{BACKUP}"
    done = _encrypted(call, table, (*table[:-1], name), _key_id(call), history=True, swap=True)
    return [(done.files + done.earlier,)]


def _key_id(call: CallContext) -> str:
    properties = dict(call["properties"] or {})
    key_id = properties.pop(KEY_ID_PROPERTY, None)
    if not key_id:
        raise ConfigError(
            f"{call.procedure}: the argument properties has no {KEY_ID_PROPERTY}: a table of sealberg is "
            f"encrypted, properties => map('{KEY_ID_PROPERTY}', 'the id of a master key')"
        )
    if properties:
        raise ConfigError(
            f"{call.procedure}: properties has {', '.join(sorted(properties))}; the new table takes over the "
            "properties of the old one, so set others afterwards by ALTER TABLE ... SET TBLPROPERTIES"
        )
    return str(key_id)


def _encrypted(
    call: CallContext, source: tuple[str, ...], target: tuple[str, ...], key_id: str, **options: Any
) -> CopyResult:
    if call[MISSING.name]:
        raise ConfigError(
            f"{call.procedure}: the argument ignore_missing_files is not supported: the rows of a missing file would "
            "be lost. Repair the source, or delete the file from it"
        )
    if positive(call, PARALLELISM.name) is not None:
        unused(call, PARALLELISM.name, "files are tasks of Spark, which runs as many at a time as it has cores")
    plan = encrypt_job.plan(dotted(source), dotted(target), key_id=key_id, catalog=call.catalog, **options)
    return plan.execute(runner=call.runner)


PROCEDURES: Final = (
    Procedure(
        "encrypt",
        "Makes a new encrypted table of a plaintext table, and compares both before it is published",
        (
            SOURCE,
            TABLE,
            required("key_id", "string", "the id of the master key"),
            optional("history", "boolean", "copy all snapshots, branches and tags"),
            optional("sync", "boolean", "follow what is committed to the source meanwhile"),
            optional("swap", "boolean", "exchange the names at the end"),
        ),
        columns(files=pa.int64(), rows=pa.int64(), snapshots=pa.int32(), swapped=pa.bool_(), message=pa.string()),
        encrypt,
    ),
    Procedure(
        "snapshot",
        "Makes a new encrypted table of a plaintext table",
        (SOURCE, TABLE, optional("location", "string"), PROPERTIES, PARALLELISM, MISSING),
        columns(imported_files_count=pa.int64()),
        snapshot,
    ),
    Procedure(
        "migrate",
        "Replaces a plaintext table by an encrypted one; the plaintext table stays as a backup",
        (
            TABLE,
            PROPERTIES,
            optional("drop_backup", "boolean"),
            optional("backup_table_name", "string"),
            PARALLELISM,
            MISSING,
        ),
        columns(migrated_files_count=pa.int64()),
        migrate,
    ),
)
