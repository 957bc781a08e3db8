"""A catalog of the shared Spark session whose tables are in an object store, behind a proxy that counts and fails.

with open_lake(kit, folder) as lake:
    name = lake.table(1000)                     lake.hr.t0, a table with this number of rows in one file
    with lake.proxy.counting() as seen: ...     by_tasks(seen.requests): requests of Hadoop
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import sealberg
import sealberg.spark
from kit.programs.spark import MASTER_KEY
from kit.servers.hadoop_connectors import hadoop_aws
from kit.servers.store_proxy import store_proxy
from kit.servers.store_servers import s3, s3_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit
    from kit.servers.store_faults import StoreRequest
    from kit.servers.store_proxy import StoreProxy
    from kit.servers.store_servers import Store

SECRET: Final = "secret-6d1f0c55"
TOKEN: Final = "token-0b77aa19"
DATA: Final = r"/data/.*\.parquet$"


@dataclass
class Lake:
    """A catalog of the session whose tables are in a bucket, behind a proxy."""

    kit: SparkKit
    store: Store
    proxy: StoreProxy
    catalog: Any
    names: Iterator[int]

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return self.kit.sql(statement)

    def table(self, rows: int = 1000, properties: str = "") -> str:
        name = f"lake.hr.t{next(self.names)}"
        self.sql(f"CREATE TABLE {name} (id bigint, s string) TBLPROPERTIES ('encryption.key-id' = 'hr'{properties})")
        if rows:
            self.sql(f"INSERT INTO {name} SELECT id, cast(id AS string) FROM range(0, {rows}, 1, 1)")
        return name

    def python(self, name: str) -> Any:
        return self.catalog.load_table(name.removeprefix("lake."))

    def objects(self, name: str) -> list[str]:
        prefix = f"warehouse/{name.removeprefix('lake.').replace('.', '/')}/data/"
        found = s3_client(self.store).list_objects_v2(Bucket=self.store.bucket, Prefix=prefix)
        return [each["Key"] for each in found.get("Contents", [])]


@contextmanager
def open_lake(kit: SparkKit, folder: Path) -> Iterator[Lake]:
    """The catalog `lake` with credentials of its own; removed after the block."""
    hadoop_aws()
    plain = s3()
    with store_proxy(plain.address) as proxy:
        store = plain.through(proxy.address)
        given = {**properties_of(folder, store), "s3.secret-access-key": SECRET, "s3.session-token": TOKEN}
        with catalog_of(kit, "lake", given) as catalog:
            yield Lake(kit, plain, proxy, catalog, count())


def properties_of(folder: Path, store: Store) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": store.warehouse,
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": MASTER_KEY,
        **store.properties,
    }


@contextmanager
def catalog_of(kit: SparkKit, name: str, given: dict[str, str]) -> Iterator[Any]:
    """Another catalog of the session."""
    catalog = sealberg.load_catalog(name, **given)
    catalog.create_namespace_if_not_exists("hr")
    kit.spark.conf.set(f"spark.sql.catalog.{name}", "sealberg.catalog.EncryptedCatalog")
    _open[name] = given
    sealberg.spark.install(kit.spark, _open, replace=True)  # a test may give a name that an earlier one gave
    try:
        yield catalog
    finally:
        kit.spark.conf.unset(f"spark.sql.catalog.{name}")
        del _open[name]


_open: dict[str, dict[str, str]] = {}


@contextmanager
def session_settings(kit: SparkKit, settings: dict[str, str]) -> Iterator[None]:
    """Hadoop settings that a user makes in the session."""
    for name, value in settings.items():
        kit.spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            kit.spark.conf.unset(name)


def by_tasks(requests: list[StoreRequest]) -> list[StoreRequest]:
    """The requests of Hadoop; Python on the driver makes the others."""
    return [each for each in requests if "Hadoop" in header(each, "user-agent")]


def header(request: StoreRequest, name: str) -> str:
    return next((value for each, value in request.headers.items() if each.lower() == name), "")
