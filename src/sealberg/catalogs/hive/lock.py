"""The lock of a table in the Hive Metastore, the same that Iceberg Java takes.

with table_lock(open_client, client, name, policy) as lock:
    ...                       no other process that takes the lock commits here
    lock.renew()              CommitFailedException if the lock has expired

A lock that is not renewed expires after some minutes (hive.txn.timeout), so a process that died does not block others
for long.
"""

from __future__ import annotations

import contextlib
import getpass
import socket
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hive_metastore.ttypes import (
    CheckLockRequest,
    HeartbeatRequest,
    LockComponent,
    LockLevel,
    LockRequest,
    LockState,
    LockType,
    ShowLocksRequest,
    UnlockRequest,
)
from pyiceberg.exceptions import CommitFailedException
from thrift.Thrift import TException

from sealberg.catalogs.base import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sealberg.catalogs.base import Name


@dataclass(frozen=True)
class LockPolicy:
    """How often and how long to check whether the lock was acquired; Java's and PyIceberg's properties."""

    least_s: float
    most_s: float
    total_s: float

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LockPolicy:
        return cls(
            float(properties.get("lock-check-min-wait-time", 0.05)),
            float(properties.get("lock-check-max-wait-time", 1)),
            float(properties.get("iceberg.hive.lock-timeout-ms", 180_000)) / 1000,
        )


@dataclass(frozen=True)
class Lock:
    """An acquired lock."""

    client: Any
    id: int
    table: str

    def renew(self) -> None:
        """Renew the lock; an error if it has expired, because another process may have acquired it."""
        try:
            self.client.heartbeat(HeartbeatRequest(lockid=self.id))
        except (TException, OSError) as error:
            raise CommitFailedException(f"the metastore's lock of {self.table} is lost") from error


@contextlib.contextmanager
def table_lock(open_client: Callable[[], Any], client: Any, name: Name, policy: LockPolicy) -> Iterator[Lock]:
    """Hold the lock of the table during the block.

    Args:
        open_client: a context manager that gives another connection.
        client: the connection that the block uses.
        policy: how long to wait for the lock.
    """
    # Table names are lower case, but the metastore compares lock names as sent. Other clients may send either form.
    names = dict.fromkeys((name, (name[0].lower(), name[1].lower())))
    mine = f"sealberg-{uuid.uuid4()}"
    components = [
        LockComponent(type=LockType.EXCLUSIVE, level=LockLevel.TABLE, dbname=database, tablename=table)
        for database, table in names
    ]
    request = LockRequest(component=components, user=getpass.getuser(), hostname=socket.gethostname(), agentInfo=mine)
    try:
        made = client.lock(request)
    except (TException, OSError) as error:
        _let_go(open_client, lambda again: _made_by(again, mine))
        raise CommitFailedException(f"could not request the metastore's lock of {dotted(name)}: {error}") from error
    try:
        _wait(client, made, dotted(name), policy)
        yield Lock(client, made.lockid, dotted(name))
    finally:
        _let_go(open_client, lambda _: [made.lockid])


def _wait(client: Any, lock: Any, table: str, policy: LockPolicy) -> None:
    started, wait_s, state = time.monotonic(), policy.least_s, lock.state
    while state == LockState.WAITING and time.monotonic() - started < policy.total_s:
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, policy.most_s)
        try:
            state = client.check_lock(CheckLockRequest(lockid=lock.lockid)).state
        except (TException, OSError) as error:
            raise CommitFailedException(f"the metastore's lock of {table} is lost") from error
    if state != LockState.ACQUIRED:
        raise CommitFailedException(
            f"could not acquire the metastore's lock of {table} in {policy.total_s:g} s: another process has had the "
            "lock of the table. iceberg.hive.lock-timeout-ms sets the wait"
        )


def _made_by(client: Any, mine: str) -> list[int]:
    shown = client.show_locks(ShowLocksRequest()).locks
    return list({lock.lockid for lock in shown if lock.agentInfo == mine})


def _let_go(open_client: Callable[[], Any], locks: Callable[[Any], list[int]]) -> None:
    # Over a new connection, because the block's connection may be broken. A lock that cannot be released expires.
    with contextlib.suppress(TException, OSError), open_client() as client:
        for lock_id in locks(client):
            client.unlock(UnlockRequest(lockid=lock_id))
