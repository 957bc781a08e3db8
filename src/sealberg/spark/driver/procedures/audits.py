"""Procedures that look and change nothing: `verify` and `inspect`, the jobs of the same names.

Their files are checked by tasks of the calling session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sealberg.errors import ConfigError
from sealberg.jobs import verify as verify_job
from sealberg.jobs.checks import table_state
from sealberg.jobs.inspect_table import inspect_table
from sealberg.spark.driver.procedures.signature import TABLE, Procedure, columns, optional

if TYPE_CHECKING:
    from sealberg.jobs.findings import Level, TableFacts
    from sealberg.spark.driver.procedures.signature import CallContext

Rows = list[tuple[Any, ...]]
FINDING: Final = columns(
    table=pa.string(),
    result=pa.string(),
    code_or_null=pa.string(),
    file_or_null=pa.string(),
    snapshot_id_or_null=pa.int64(),
    message=pa.string(),
)


def verify(call: CallContext) -> Rows:
    level: Level = call["level"] or "full"
    plan = verify_job.plan(call.identifier(), catalog=call.catalog, level=level, snapshot=call["snapshot_id"])
    result = plan.execute(runner=call.runner)
    found: Rows = [
        (finding.table, finding.severity, finding.code, finding.file, finding.snapshot_id, finding.message)
        for finding in result.findings
    ]
    found += [(each.table, "not checked", None, each.what, None, each.why) for each in result.not_checked]
    troubled = {row[0] for row in found}
    return [_passed(table) for table in result.tables if table.name not in troubled] + found


def _passed(table: TableFacts) -> tuple[Any, ...]:
    files = sum(kind.checked_files for kind in table.kinds)
    return (table.name, "passed", None, None, table.current_snapshot_id, f"{files} files checked, nothing found")


def inspect(call: CallContext) -> Rows:
    state = table_state.load(call.catalog, call.identifier())
    found = inspect_table(state, catalog=call.catalog.name, files=True)
    if found.not_checked:
        raise ConfigError(f"inspect: {'; '.join(map(str, found.not_checked))}")
    return [(file.location, file.kind, file.form, file.encrypted, file.stored_length) for file in found.files]


PROCEDURES: Final = (
    Procedure(
        "verify",
        "Proves that a table is whole and sealed, or says what is not",
        (
            TABLE,
            optional("level", "string", "fast, full (default) or deep"),
            optional("snapshot_id", "long", "only the files of this snapshot"),
        ),
        FINDING,
        verify,
    ),
    Procedure(
        "inspect",
        "Lists the files of a table with their formats, by their bytes",
        (TABLE,),
        columns(
            location=pa.string(),
            kind_or_null=pa.string(),
            format=pa.string(),
            encrypted=pa.bool_(),
            stored_length=pa.int64(),
        ),
        inspect,
    ),
)
