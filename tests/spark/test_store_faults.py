"""Faults of an object store in Spark's tasks: passed over or named, and never a wrong row or half a commit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kit.programs.spark_lake import DATA, open_lake
from kit.servers.store_faults import (
    BUCKET_REGION,
    AccessDenied,
    CutBody,
    ErrorAnswer,
    ExpiredToken,
    LostAnswer,
    NoSuchKey,
    OtherBody,
    Reset,
    ResetUpload,
    ServerError,
    ShortBody,
    SlowDown,
    WrongRegion,
)
from kit.servers.store_servers import s3_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.programs.spark import SparkKit
    from kit.programs.spark_lake import Lake
    from kit.servers.store_faults import Fault


@pytest.fixture(scope="module")
def lake(kit: SparkKit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with open_lake(kit, tmp_path_factory.mktemp("lake")) as opened:
        yield opened


@pytest.mark.parametrize("fault", [SlowDown(), ServerError(), Reset(), CutBody()], ids=str)
def test_a_read_goes_on_after_a_fault_that_passes(lake: Lake, fault: Fault) -> None:
    name = lake.table(1000)
    with lake.proxy.failing(fault, "GET", DATA, times=2) as rule:
        assert lake.sql(f"SELECT sum(id), count(s) FROM {name}") == [(499500, 1000)]
    assert rule.times == 2


@pytest.mark.parametrize(
    "fault",
    [AccessDenied(), NoSuchKey(), ExpiredToken(), ShortBody(), ShortBody(2000), OtherBody(), OtherBody(start=1000)],
    ids=str,
)
def test_a_read_that_cannot_succeed_names_the_object(lake: Lake, fault: Fault) -> None:
    name = lake.table(1000)
    (key,) = lake.objects(name)
    with lake.proxy.failing(fault, "GET", DATA) as rule, pytest.raises(Exception, match=re.escape(key)) as caught:
        lake.sql(f"SELECT sum(id), count(s) FROM {name}")
    assert rule.times > 0
    if isinstance(fault, ErrorAnswer):
        assert re.search("AccessDenied|FileNotFound|ExpiredToken", str(caught.value))
    assert lake.sql(f"SELECT sum(id), count(s) FROM {name}") == [(499500, 1000)]


def test_a_wrong_region_is_told_with_the_object_the_region_and_hadoops_setting(lake: Lake) -> None:
    """Region and setting are S3A's words for a redirect; of a refused signature it has S3's words."""
    name = lake.table(1000)
    (key,) = lake.objects(name)
    setting = rf"{re.escape(key)}.*region \[{BUCKET_REGION}\].*fs\.s3a\.endpoint\.region"
    for status, expected in ((301, setting), (400, rf"{re.escape(key)}.*AuthorizationHeaderMalformed")):
        with lake.proxy.failing(WrongRegion(status), None, DATA) as rule, pytest.raises(Exception, match=expected):
            lake.sql(f"SELECT sum(id), count(s) FROM {name}")
        assert rule.times > 0
    assert lake.sql(f"SELECT sum(id), count(s) FROM {name}") == [(499500, 1000)]


@pytest.mark.parametrize("fault", [SlowDown(), ServerError(), Reset(), ResetUpload(), LostAnswer()], ids=str)
def test_a_write_goes_on_after_a_fault_that_passes(lake: Lake, fault: Fault) -> None:
    name = lake.table(0)
    with lake.proxy.failing(fault, "PUT", DATA, times=2) as rule:
        lake.sql(f"INSERT INTO {name} SELECT id, cast(id AS string) FROM range(0, 1000, 1, 1)")
    assert rule.times == 2
    assert lake.sql(f"SELECT sum(id), count(s) FROM {name}") == [(499500, 1000)]
    assert len(lake.objects(name)) == 1


@pytest.mark.parametrize("fault", [AccessDenied(), ExpiredToken()], ids=str)
def test_a_write_that_cannot_succeed_commits_nothing(lake: Lake, fault: Fault) -> None:
    name = lake.table(10)
    with lake.proxy.failing(fault, "PUT", DATA) as rule, pytest.raises(Exception, match=r"data/.*\.parquet"):
        lake.sql(f"INSERT INTO {name} SELECT id, 'x' FROM range(0, 1000, 1, 2)")
    assert rule.times > 0
    assert lake.sql(f"SELECT count(*) FROM {name}") == [(10,)]
    assert len(lake.objects(name)) == 1


@pytest.fixture
def small_parts(lake: Lake) -> Iterator[None]:
    """Files of more than 5 MB go in parts."""
    settings = {"fs.s3a.multipart.size": "5M", "fs.s3a.multipart.threshold": "5M"}
    for name, value in settings.items():
        lake.kit.spark.conf.set(name, value)
    yield
    for name in settings:
        lake.kit.spark.conf.unset(name)


LARGE = "SELECT id, concat_ws('', transform(sequence(1, 20), i -> uuid())) FROM range(0, 20000, 1, 1)"


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("fault", [ServerError(), ResetUpload()], ids=str)
def test_an_upload_in_parts_goes_on_after_a_fault(lake: Lake, fault: Fault) -> None:
    name = lake.table(0)
    with lake.proxy.counting() as seen, lake.proxy.failing(fault, "PUT", DATA, times=1, skip=1) as rule:
        lake.sql(f"INSERT INTO {name} {LARGE}")
    assert rule.times == 1
    assert len({str(each.query.get("partNumber")) for each in seen.requests if "partNumber" in each.query}) > 1
    assert lake.sql(f"SELECT count(*), sum(length(s)) FROM {name}") == [(20000, 20000 * 20 * 36)]


@pytest.mark.usefixtures("small_parts")
def test_an_upload_in_parts_that_cannot_succeed_is_taken_back(lake: Lake) -> None:
    name = lake.table(0)
    with (
        lake.proxy.failing(AccessDenied(), "PUT", DATA, skip=1) as rule,
        pytest.raises(Exception, match=r"data/.*\.parquet"),
    ):
        lake.sql(f"INSERT INTO {name} {LARGE}")
    assert rule.times > 0
    assert not lake.objects(name)
    client = s3_client(lake.store)
    assert not client.list_multipart_uploads(Bucket=lake.store.bucket).get("Uploads"), "its parts are gone, too"
    assert lake.sql(f"SELECT count(*) FROM {name}") == [(0,)]
