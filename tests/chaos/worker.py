"""One process that works on the table as its plan says, and logs each operation before and after.

    attempt ──> plan in a transaction ──(held for a while)──> commit ──> acknowledged | failed | unknown

It begins where the log of an earlier process ends, which was killed.
"""

from __future__ import annotations

import random
import time
import warnings
from typing import TYPE_CHECKING, Any, Final

from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.transforms import TruncateTransform
from pyiceberg.types import StringType

from chaos import answers, clock, kms, storage
from chaos.log import Log, last_attempt
from chaos.model import digest
from chaos.plan import MAIN, Row
from chaos.round import NAME, OPERATION, to_arrow

if TYPE_CHECKING:
    from chaos.plan import Operation
    from chaos.round import Round

MODES: Final = ("copy-on-write", "merge-on-read")


def work(settings: Round, number: int, life: int) -> None:
    """Until the round is over; `life` counts the processes that this worker has had."""
    warnings.simplefilter("ignore")
    log = Log(settings.log(number))
    dice = random.Random(f"faults {settings.seed} {number} {life}")
    clock.shift(settings.clocks[number % len(settings.clocks)])
    storage.HERE.log, storage.HERE.rates, storage.HERE.dice = log, settings.storage, dice
    storage.HERE.sign = settings.root / "trouble"
    answers.lose(settings.lost, random.Random(f"answers {settings.seed} {number} {life}"))
    Worker(settings, number, log, f"kms {settings.seed} {number} {life}").run()


class Worker:
    """The table as this process knows it, and the operations that are left."""

    def __init__(self, settings: Round, number: int, log: Log, kms_seed: str) -> None:
        self._settings = settings
        self._number = number
        self._log = log
        self._properties = {"py-io-impl": "chaos.storage.ChaosFileIO"}
        if settings.kms:
            self._properties |= {"encryption.kms-impl": "chaos.kms.ChaosKms", kms.SEED: kms_seed}
            self._properties |= {kms.RATE: str(settings.kms)}
        self._catalog: Any = None

    def run(self) -> None:
        begin = last_attempt(self._settings.log(self._number)) + 1
        table = self._load()
        for operation in self._settings.plan(self._number):
            if operation.index < begin:
                continue
            if self._over() or table is None:
                return
            table = self._attempt(operation, table)

    def _over(self) -> bool:
        return (self._settings.root / "stop").exists()

    def _load(self) -> Any:
        """The table as it is now; errors are noted, and tried again until the round is over."""
        while not self._over():
            try:
                if self._catalog is None:
                    self._catalog = self._settings.connect(**self._properties)
                return self._catalog.load_table(NAME)
            except Exception as error:
                self._log("note", error=name_of(error), message=str(error)[:300])
                time.sleep(0.3)
        return None

    def _attempt(self, operation: Operation, table: Any) -> Any:
        log = self._log
        log.operation = operation.index
        log("attempt", plan=operation.to_json())
        try:
            if not operation.stale:
                table.refresh()
            do(operation, table, log)
        except CommitStateUnknownException as error:
            log("unknown", error=name_of(error), message=str(error)[:300])
        except Exception as error:
            log("failed", error=name_of(error), message=str(error)[:300])
        else:
            log("acknowledged", at=table.metadata_location)
            return table
        time.sleep(0.05)  # storage that refuses everything refuses quickly
        return self._load()


def do(operation: Operation, table: Any, log: Log) -> None:
    """The operation, by the public interface."""
    if operation.writes_rows:
        if not operation.hold_s:
            write_rows(operation, table)
            return
        with table.transaction() as held:
            write_rows(operation, held)
            time.sleep(operation.hold_s)
        return
    _METADATA[operation.kind](operation, table, log)


def write_rows(operation: Operation, target: Any) -> None:
    """The same on a table, at once, or in a transaction, to be committed later."""
    how: dict[str, Any] = {"snapshot_properties": {OPERATION: operation.name}, "branch": operation.ref}
    match operation.kind:
        case "append":
            target.append(to_arrow(operation.rows), **how)
        case "delete":
            target.delete(f"k in ({', '.join(map(str, operation.keys))})", **how)
        case "upsert":
            target.upsert(to_arrow(operation.rows), join_cols=["k"], **how)
        case "overwrite":
            mine = f"w = {operation.worker} and p = {operation.partition}"
            target.overwrite(to_arrow(operation.rows), mine, **how)
        case "replace":
            target.dynamic_partition_overwrite(to_arrow(operation.rows), **how)
        case _:
            raise AssertionError(operation.kind)


def _mode(operation: Operation, table: Any, _: Log) -> None:
    with table.transaction() as change:
        change.set_properties({f"write.{what}.mode": MODES[operation.value] for what in ("delete", "update", "merge")})


def _column(operation: Operation, table: Any, _: Log) -> None:
    with table.update_schema() as schema:
        schema.add_column(f"c{operation.worker}_{operation.index}", StringType())


def _field(operation: Operation, table: Any, _: Log) -> None:
    # Each width is new, and wider than any key: partitions stay as many as they are.
    width = 1_000_000_000 + operation.worker * 10_000 + operation.index
    with table.update_spec() as spec:
        spec.add_field("k", TruncateTransform(width), f"f{operation.worker}_{operation.index}")


def _make_ref(operation: Operation, table: Any, log: Log) -> None:
    head = table.refs()[MAIN].snapshot_id
    log("aim", at=head)
    with table.manage_snapshots() as refs:
        (refs.create_tag if operation.kind == "tag" else refs.create_branch)(head, operation.ref)


def _unref(operation: Operation, table: Any, _: Log) -> None:
    with table.manage_snapshots() as refs:
        (refs.remove_tag if operation.ref.startswith("t") else refs.remove_branch)(operation.ref)


def _rollback(_: Operation, table: Any, log: Log) -> None:
    target = table.current_snapshot().parent_snapshot_id
    if target is None or table.snapshot_by_id(target) is None:
        return
    log("aim", at=target)
    with table.manage_snapshots() as refs:
        refs.rollback_to_snapshot(target)


def _expire(operation: Operation, table: Any, log: Log) -> None:
    kept = {ref.snapshot_id for ref in table.refs().values()}
    gone = [each.snapshot_id for each in table.snapshots()[: -operation.keep] if each.snapshot_id not in kept]
    log("aim", at=gone)
    if gone:
        table.maintenance.expire_snapshots().by_ids(gone).commit()


def _read(_: Operation, table: Any, log: Log) -> None:
    head = table.current_snapshot().snapshot_id
    rows = rows_of(table, head)
    log("seen", snapshot=head, digest=digest(rows), rows=len(rows))


_METADATA: Final = {
    "mode": _mode,
    "column": _column,
    "field": _field,
    "tag": _make_ref,
    "branch": _make_ref,
    "unref": _unref,
    "rollback": _rollback,
    "expire": _expire,
    "read": _read,
}


def rows_of(table: Any, snapshot_id: int) -> list[Row]:
    found = table.scan(snapshot_id=snapshot_id, selected_fields=("k", "p", "v")).to_arrow()
    return [Row(**row) for row in found.to_pylist()]


def name_of(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"
