"""Credentials that a REST server vends for a table: the tasks use them, and get new ones while a query runs."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

import sealberg
from kit.programs.spark_lake import by_tasks, catalog_of, header
from kit.servers.fault_proxy import fault_proxy
from kit.servers.hadoop_connectors import hadoop_aws
from kit.servers.store_proxy import store_proxy
from kit.servers.store_servers import s3
from kit.tables import catalogs
from sealberg.jobs.verify import plan
from sealberg.spark.job_runner import SparkRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kit.programs.spark import SparkKit
    from kit.servers.fault_proxy import Request
    from kit.servers.store_proxy import StoreProxy


class Vendor:
    """Adds credentials to every table that the server gives; each time others."""

    def __init__(self) -> None:
        self.life_s = 3600.0
        self.issued: dict[str, float] = {}

    def __call__(self, _: Request, status: int, body: bytes) -> tuple[int, bytes]:
        answer = json.loads(body) if body else {}
        if "metadata" not in answer:
            return status, body
        token = f"vended-{len(self.issued)}"
        self.issued[token] = time.time()
        answer["config"] = {
            "s3.access-key-id": "vended-key",
            "s3.secret-access-key": "vended-secret",
            "s3.session-token": token,
            "s3.session-token-expires-at-ms": str(round((time.time() + self.life_s) * 1000)),
        }
        return status, json.dumps(answer).encode()


@pytest.fixture(scope="module")
def given() -> dict[str, Any]:
    """The properties of the catalog; `vended` fills them in."""
    return {}


@pytest.fixture(scope="module")
def vended(
    kit: SparkKit, tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any]
) -> Iterator[tuple[Vendor, StoreProxy, str]]:
    """The server keeps metadata in a folder; the data files go to a bucket."""
    hadoop_aws()
    folder: Path = tmp_path_factory.mktemp("vended")
    store, vendor = s3(), Vendor()
    with (
        catalogs.rest(folder) as lake,
        fault_proxy(lake.properties["uri"]) as between,
        between.answering(vendor),
        store_proxy(store.address) as proxy,
    ):
        given |= {
            **lake.properties,
            "uri": between.address,
            "s3.endpoint": proxy.address,
            "s3.region": "us-east-1",
            "sealberg.storage.locations": "s3://",
        }
        with catalog_of(kit, "rest", given):
            data = f"'write.data.path' = 's3://{store.bucket}/data'"
            kit.sql(f"CREATE TABLE rest.hr.t (id bigint) TBLPROPERTIES ('encryption.key-id' = 'hr', {data})")
            yield vendor, proxy, "rest.hr.t"


def test_the_tasks_use_the_credentials_of_their_table(kit: SparkKit, vended: tuple[Vendor, StoreProxy, str]) -> None:
    vendor, proxy, name = vended
    vendor.life_s = 3600
    with proxy.counting() as seen:
        kit.sql(f"INSERT INTO {name} SELECT id FROM range(0, 10, 1, 2)")
        assert kit.sql(f"SELECT count(id) FROM {name} WHERE id < 10") == [(10,)]
    found = by_tasks(seen.requests)
    assert {each.method for each in found} == {"PUT", "GET"}
    assert all("Credential=vended-key/" in header(each, "authorization") for each in found)
    assert {header(each, "x-amz-security-token") for each in found} <= vendor.issued.keys()


def test_a_task_that_starts_late_gets_new_credentials(kit: SparkKit, vended: tuple[Vendor, StoreProxy, str]) -> None:
    from pyspark.sql.functions import udf

    vendor, proxy, name = vended
    vendor.life_s = 2
    began = time.time()

    @udf("bigint")
    def slow(value):  # type: ignore[no-untyped-def]  # Spark reads annotations, and not as texts
        import time

        time.sleep(3)
        return value

    with proxy.counting() as seen:
        kit.spark.range(20, 24, numPartitions=4).select(slow("id").alias("id")).writeTo(name).append()
    found = by_tasks(seen.requests)
    assert [each.method for each in found] == ["PUT"] * 4
    late = [vendor.issued[header(each, "x-amz-security-token")] - began for each in found]
    assert min(late) > 2.5, "those of the plan had ended when the first file was opened"
    vendor.life_s = 3600
    assert kit.sql(f"SELECT count(id) FROM {name} WHERE id >= 20") == [(4,)]


def test_a_job_on_spark_reads_files_with_the_credentials_of_their_table(
    kit: SparkKit, vended: tuple[Vendor, StoreProxy, str], given: dict[str, Any]
) -> None:
    vendor, proxy, name = vended
    vendor.life_s = 3600
    kit.sql(f"INSERT INTO {name} SELECT id FROM range(30, 40, 1, 2)")
    with sealberg.load_catalog("rest", **given) as catalog:
        made = plan("hr.t", catalog=catalog)
        with proxy.counting() as seen:
            result = made.execute(runner=SparkRunner(kit.spark))
    assert (result.verdict, result.exit_code) == ("sound", 0), str(result)
    reads = [each for each in seen.requests if each.path.endswith(".parquet")]
    assert len({each.path for each in reads}) >= 2
    assert {header(each, "x-amz-security-token") for each in reads} <= vendor.issued.keys()
