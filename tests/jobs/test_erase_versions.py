"""`erase` asks a bucket for its versions: what was removed is still there for who asks for it."""

from __future__ import annotations

from typing import Any

import pytest

import sealberg
from kit.servers import store_servers
from kit.servers.postgres import MEMORY_KMS
from kit.tables.lives import ids, rows
from sealberg.errors import StorageAccessError
from sealberg.files import object_versions
from sealberg.jobs import erase

pytestmark = [pytest.mark.slow, pytest.mark.server]


def table_of(catalog: Any) -> Any:
    catalog.create_namespace("hr")
    table = catalog.create_table("hr.people", rows().schema, properties={"encryption.key-id": "hr"})
    table.append(rows(1, 2, 3))
    return table


def versions(client: Any, bucket: str) -> list[str]:
    found = client.list_object_versions(Bucket=bucket).get("Versions", [])
    return [each["Key"] for each in found if not (each["IsLatest"] or each["Key"].endswith("/"))]


def test_older_versions_are_told_and_deleted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_servers.s3()
    client = store_servers.s3_client(store)
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse, **MEMORY_KMS}
    with sealberg.load_catalog("test", **given, **store.properties) as catalog:
        table: Any = table_of(catalog)
        assert erase.plan(table, where="id = 1").execute().exit_code == 0, "a bucket that keeps no versions"
        client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
        table.refresh().append(rows(4, 5))
        result = erase.plan(table, where="id = 4").execute()
        kept = versions(client, store.bucket)
        assert any(key.endswith(".parquet") for key in kept)
        assert (result.exit_code, result.is_proved, result.versions.count) == (1, False, len(kept))
        assert "the store keeps versions" in str(result)
        again = erase.plan(table, where="id = 4").execute()
        assert again.exit_code == 1, "also in a run that has nothing else to do"

        foreign = table.metadata.location.removeprefix(f"s3://{store.bucket}/") + "/data/notes.txt"
        for text in (b"1", b"2"):
            client.put_object(Bucket=store.bucket, Key=foreign, Body=text)
        client.put_object(Bucket=store.bucket, Key="elsewhere/x", Body=b"1")
        client.put_object(Bucket=store.bucket, Key="elsewhere/x", Body=b"2")
        done = erase.plan(table, where="id = 4", delete_versions=True).execute()
        assert sorted(versions(client, store.bucket)) == sorted([foreign, "elsewhere/x"]), (
            "one is there, one is others'"
        )
        assert (done.exit_code, done.versions.count, done.versions.deleted) == (1, 1, len(kept))
        client.delete_object(Bucket=store.bucket, Key=foreign)
        assert erase.plan(table, where="id = 4", delete_versions=True).execute().exit_code == 0
        assert ids(table.refresh()) == [2, 3, 5]

        def refused(*_: Any) -> Any:
            raise StorageAccessError("denied")

        monkeypatch.setattr(object_versions, "_client", refused)
        last = erase.plan(table, where="id = 4").execute()
        assert (last.exit_code, last.is_proved) == (2, False)
        assert "were not looked for: denied" in str(last)
