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
from sealberg.jobs import erase, shred, verify

pytestmark = [pytest.mark.slow, pytest.mark.server]


def table_of(catalog: Any) -> Any:
    catalog.create_namespace("hr")
    table = catalog.create_table("hr.people", rows().schema, properties={"encryption.key-id": "hr"})
    table.append(rows(1, 2, 3))
    return table


def test_a_shredding_asks_a_bucket_for_what_still_has_keys(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_servers.s3()
    client = store_servers.s3_client(store)
    client.put_bucket_versioning(Bucket=store.bucket, VersioningConfiguration={"Status": "Enabled"})
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse, **MEMORY_KMS}
    with sealberg.load_catalog("test", **given, **store.properties) as catalog:
        table_of(catalog)
        told = shred.plan("hr.people", catalog=catalog).execute()
        assert told.exit_code == 1
        assert any("an older version of a metadata file" in each for each in told.findings)
        for each in client.list_object_versions(Bucket=store.bucket)["Versions"]:
            if not each["IsLatest"]:
                client.delete_object(Bucket=store.bucket, Key=each["Key"], VersionId=each["VersionId"])
        assert shred.plan("hr.people", catalog=catalog).execute().exit_code == 0

        def refused(*_: Any) -> Any:
            raise StorageAccessError("denied")

        monkeypatch.setattr(object_versions, "_client", refused)
        unknown = shred.plan("hr.people", catalog=catalog).execute()
        assert unknown.exit_code == 2
        assert any("versions of objects were not looked for: denied" in each for each in unknown.not_proved)


@pytest.mark.parametrize("io", ["pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO"])
def test_rows_in_an_object_with_the_name_of_a_folder_are_found(tmp_path: Any, io: str) -> None:
    store = store_servers.s3()
    given = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse, **MEMORY_KMS}
    with sealberg.load_catalog("test", **{**given, **store.properties, "py-io-impl": io}) as catalog:
        location = f"{table_of(catalog).metadata.location}/data/rows/"
        key = location.removeprefix(f"s3://{store.bucket}/")
        store_servers.s3_client(store).put_object(Bucket=store.bucket, Key=key, Body=b"id,name\n1,Ann\n")
        found = verify.plan("hr.people", catalog=catalog).execute()
        assert [(each.code, each.file) for each in found.findings] == [("foreign", location)]
        assert shred.plan("hr.people", catalog=catalog).execute().exit_code == 1


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
        last = erase.plan(table, where="id = 4", delete_versions=True).execute()
        assert (last.exit_code, last.versions.count) == (1, 2), "others' file stays, also if its owner has deleted it"
        assert "notes.txt" in str(last)
        assert "has not the name of a table's file" in str(last)
        for each in client.list_object_versions(Bucket=store.bucket, Prefix=foreign)["Versions"]:
            client.delete_object(Bucket=store.bucket, Key=foreign, VersionId=each["VersionId"])
        assert erase.plan(table, where="id = 4", delete_versions=True).execute().exit_code == 0
        assert ids(table.refresh()) == [2, 3, 5]

        manifest = str(table.current_snapshot().manifests(table.io)[0].manifest_path)
        data = next(iter(table.scan().plan_files())).file.file_path
        for location in (data, table.metadata_location, manifest):  # somebody deletes what the table needs
            key = location.removeprefix(f"s3://{store.bucket}/")
            deleted = client.delete_object(Bucket=store.bucket, Key=key)["VersionId"]
            if location == data:
                lost = erase.plan(table, where="id = 4", delete_versions=True).execute()
                assert (lost.exit_code, lost.versions.deleted) == (1, 0)
                assert "the table names this file" in str(lost)
            client.delete_object(Bucket=store.bucket, Key=key, VersionId=deleted)  # and it is back
        assert ids(table.refresh()) == [2, 3, 5]

        def refused(*_: Any) -> Any:
            raise StorageAccessError("denied")

        monkeypatch.setattr(object_versions, "_client", refused)
        last = erase.plan(table, where="id = 4").execute()
        assert (last.exit_code, last.is_proved) == (2, False)
        assert "were not looked for: denied" in str(last)
