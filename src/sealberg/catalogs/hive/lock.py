"""The lock of a table in the Hive Metastore, the same that Iceberg Java takes.

with table_lock(client, name, patience) as lock:
    ...                       nobody else who locks commits in here
    lock.renew()              it is still ours, or CommitFailedException

A lock that nobody renews expires after some minutes (hive.txn.timeout): a process that died holds up nobody for long.
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
    """How often to look whether the lock is ours, and for how long; Java's and PyIceberg's properties."""

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
    """A lock that was ours when it was made."""

    client: Any
    id: int
    table: str

    def renew(self) -> None:
        """Refuse to go on with a lock that has expired: others may have it."""
        try:
            self.client.heartbeat(HeartbeatRequest(lockid=self.id))
        except (TException, OSError) as error:
            raise CommitFailedException(f"the metastore's lock of {self.table} is lost") from error


@contextlib.contextmanager
def table_lock(open_client: Callable[[], Any], client: Any, name: Name, patience: LockPolicy) -> Iterator[Lock]:
    """The block alone with the table.

    Args:
        open_client: a context manager that gives another connection.
        client: the connection that the block uses.
    """
    # Tables have names in lower case only, and locks are compared as they were asked for: others may ask for either.
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
        raise CommitFailedException(f"the metastore gives no lock of {dotted(name)}: {error}") from error
    try:
        _wait(client, made, dotted(name), patience)
        yield Lock(client, made.lockid, dotted(name))
    finally:
        _let_go(open_client, lambda _: [made.lockid])


def _wait(client: Any, lock: Any, table: str, patience: LockPolicy) -> None:
    started, wait_s, state = time.monotonic(), patience.least_s, lock.state
    while state == LockState.WAITING and time.monotonic() - started < patience.total_s:
        time.sleep(wait_s)
        wait_s = min(wait_s * 1.5, patience.most_s)
        try:
            state = client.check_lock(CheckLockRequest(lockid=lock.lockid)).state
        except (TException, OSError) as error:
            raise CommitFailedException(f"the metastore's lock of {table} is lost") from error
    if state != LockState.ACQUIRED:
        raise CommitFailedException(f"another process has had the lock of {table} for {patience.total_s:g} s")


def _made_by(client: Any, mine: str) -> list[int]:
    shown = client.show_locks(ShowLocksRequest()).locks
    return list({lock.lockid for lock in shown if lock.agentInfo == mine})


def _let_go(open_client: Callable[[], Any], locks: Callable[[Any], list[int]]) -> None:
    # Over a connection of its own, for the block's may be what broke. A lock that stays expires.
    with contextlib.suppress(TException, OSError), open_client() as client:
        for lock_id in locks(client):
            client.unlock(UnlockRequest(lockid=lock_id))
