"""Procedures around keys: the jobs of the same names.

rotate, rewrap, prune_keys   a few requests to the KMS and one commit, in the driver
keys                         lists KEKs, and what is due
change_master, rekey         manifests or data files under new keys, by tasks of the session
erase                        rows gone for good, by tasks of the session
shred                        all access to a table gone for good, in the driver

`erase` and `shred` cannot be undone: `confirm` must repeat the table's name.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sealberg.errors import ConfigError, SealbergError
from sealberg.jobs import change_master as change_master_job
from sealberg.jobs import erase as erase_job
from sealberg.jobs import keys, prune_keys, rewrap, rotate
from sealberg.jobs import rekey as rekey_job
from sealberg.jobs import shred as shred_job
from sealberg.jobs.job import FINE
from sealberg.jobs.selection import dotted, shown
from sealberg.spark.driver.procedures.operation import procedure
from sealberg.spark.driver.procedures.signature import (
    TABLE,
    Procedure,
    columns,
    optional,
    parse_identifier,
    required,
)
from sealberg.spark.driver.procedures.where import row_filter

if TYPE_CHECKING:
    from sealberg.jobs.key_jobs import KeyResult
    from sealberg.jobs.keys import KeyInventory
    from sealberg.spark.driver.procedures.signature import CallContext

Rows = list[tuple[Any, ...]]
OUTCOME: Final = columns(table=pa.string(), status=pa.string(), message=pa.string())


def _outcomes(_: CallContext, done: KeyResult) -> Rows:
    """What became of the tables; a table that failed is an error of the statement."""
    if failed := [str(outcome) for outcome in done.outcomes if outcome.status == "failed"]:
        raise SealbergError("; ".join(failed))
    return [(outcome.table, outcome.status, outcome.message) for outcome in done.outcomes]


def _keks(_: CallContext, found: KeyInventory) -> Rows:
    masters = {key.key_id: [*key.problems, *([key.unknown] if key.unknown else [])] for key in found.master_keys}
    return [
        (
            table.name,
            table.master_key_id,
            kek.facts.key_id,
            kek.version,
            kek.facts.state,
            None if kek.facts.made_ms is None else kek.facts.made_ms * 1000,
            None if kek.last_used_ms is None else kek.last_used_ms * 1000,
            len(kek.facts.snapshots),
            [*(f"master key: {each}" for each in masters.get(table.master_key_id or "", ())), *table.due],
        )
        for table in found.tables
        for kek in table.keks
    ]


def change_master(call: CallContext) -> Rows:
    table = dotted(call.identifier())
    done = change_master_job.plan(
        table,
        call.required("new_key_id"),
        catalog=call.catalog,
        history=bool(call["history"]),
        keep_as=call["keep_as"],
        drop_old=bool(call["drop_old"]),
    ).execute(runner=call.runner)
    return [(table, call["new_key_id"], str(done))]


def rekey(call: CallContext) -> Rows:
    older_than = call["older_than"]
    done = rekey_job.plan(
        call.identifier(),
        catalog=call.catalog,
        older_than=None if older_than is None else datetime.fromtimestamp(older_than / 1e6, UTC),
        restart=bool(call["restart"]),
    ).execute(runner=call.runner)
    return [(done.files, done.stored_bytes, done.commits, len(done.remains.snapshots))]


def erase(call: CallContext) -> Rows:
    _confirm(call)
    call.required("where")
    done = erase_job.plan(call.identifier(), where=row_filter(call), catalog=call.catalog, runner=call.runner).execute(
        runner=call.runner
    )
    return [(done.rows, done.rewritten, len(done.snapshot_ids), done.removed.count, done.is_proved, str(done))]


def shred(call: CallContext) -> Rows:
    _confirm(call)
    done = shred_job.plan(call.identifier(), catalog=call.catalog).execute()
    return [(done.keys, len(done.deleted), done.objects, done.exit_code == FINE, str(done))]


def _confirm(call: CallContext) -> None:
    """There is no terminal to ask, so the statement itself must repeat the name of the table; and its UUID, where
    another table may have taken the name since somebody looked."""
    name = shown(call.identifier())
    given = call["confirm"]
    if given is None or (given != name and parse_identifier(given, "confirm") != call.identifier()):
        raise ConfigError(
            f"{call.procedure} cannot be undone: repeat the name of the table, confirm => '{name}'; "
            f"`sealberg {call.procedure} --dry-run` shows what it would do"
        )
    uuid = str(call.table().metadata.table_uuid)
    if call["table_uuid"] not in (None, uuid):
        raise ConfigError(f"{call.procedure}: {name} has the UUID {uuid}, not {call['table_uuid']}: nothing was done")


CONFIRM: Final = (
    optional("confirm", "string", "the name of the table, with its namespace"),
    optional("table_uuid", "string", "the UUID of the table, if the call must not reach another table of its name"),
)
PROCEDURES: Final = (
    Procedure(
        "rekey",
        "Gives the files of a table new data keys, without decoding them",
        (
            TABLE,
            optional("older_than", "timestamp", "only files that were added before"),
            optional("restart", "boolean", "also files that an earlier, unfinished run has done"),
        ),
        columns(files=pa.int64(), stored_bytes=pa.int64(), commits=pa.int32(), snapshots_with_old_keys=pa.int32()),
        rekey,
    ),
    Procedure(
        "erase",
        "Erases rows from every branch, snapshot, tag, file and key of a table, with a proof",
        (TABLE, required("where", "string"), *CONFIRM),
        columns(
            rows=pa.int64(),
            rewritten_data_files=pa.int32(),
            expired_snapshots=pa.int32(),
            removed_files=pa.int32(),
            proved=pa.bool_(),
            message=pa.string(),
        ),
        erase,
    ),
    Procedure(
        "shred",
        "Destroys access to a table for good",
        (TABLE, *CONFIRM),
        columns(
            removed_keys=pa.int32(),
            deleted_metadata_files=pa.int32(),
            objects=pa.int32(),
            destroyed=pa.bool_(),
            message=pa.string(),
        ),
        shred,
    ),
    procedure(rotate.plan, "Makes a fresh KEK, which seals the keys of later commits", OUTCOME, _outcomes),
    procedure(rewrap.plan, "Wraps KEKs with the newest version of their master key", OUTCOME, _outcomes),
    procedure(prune_keys.plan, "Removes keys that nothing needs", OUTCOME, _outcomes),
    procedure(
        keys.plan,
        "Lists the KEKs of a table, or of all tables of the catalog, with their ages, versions and what is due",
        columns(
            table=pa.string(),
            master_key_id_or_null=pa.string(),
            kek_id=pa.string(),
            version_or_null=pa.string(),
            state=pa.string(),
            made_at_or_null=pa.timestamp("us"),
            last_used_at_or_null=pa.timestamp("us"),
            snapshots=pa.int32(),
            due=pa.list_(pa.string()),
        ),
        _keks,
    ),
    Procedure(
        "change_master",
        "Puts a table under another master key: a new table takes its place, and shares its data files",
        (
            TABLE,
            required("new_key_id", "string"),
            optional("history", "boolean", "keep all snapshots"),
            optional("keep_as", "string", "the name of the old table afterwards"),
            optional("drop_old", "boolean", "drop the old table, with the files that only it uses"),
        ),
        columns(table=pa.string(), master_key_id=pa.string(), message=pa.string()),
        change_master,
    ),
)
