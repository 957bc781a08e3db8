"""verify on an S3 server: a whole table is sound; missing, altered, plaintext and superfluous objects are found."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import sealberg
from jobs.forge import SCHEMA, SPEC, rows
from kit.servers import store_servers
from sealberg.files.seal import seal_bytes
from sealberg.jobs.verify import plan

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

KMS = {"encryption.kms-type": "memory", "encryption.kms.memory.key.hr": "00" * 16}


@pytest.mark.parametrize("fsspec", [False, True], ids=["arrow", "fsspec"])
def test_objects_of_an_s3_server(tmp_path: Path, fsspec: bool) -> None:
    store = store_servers.s3()
    store = store_servers.with_fsspec(store) if fsspec else store
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": store.warehouse, **store.properties}
    client = store_servers.s3_client(store)
    with sealberg.load_catalog("lake", **settings, **KMS) as catalog:
        catalog.create_namespace("hr")
        table = catalog.create_table(
            "hr.t",
            SCHEMA,
            partition_spec=SPEC,
            properties={"encryption.key-id": "hr", "write.delete.mode": "merge-on-read"},
        )
        table.append(rows(0, 20))
        table.append(rows(20, 40))
        table.delete("id == 3")
        result = plan("hr.t", catalog=catalog, orphan_age=timedelta(0)).execute()
        assert (result.verdict, result.findings) == ("sound", ()), str(result)
        listed = [each["Key"] for each in client.list_objects_v2(Bucket=store.bucket)["Contents"]]
        lost, altered, *_ = sorted(key for key in listed if key.endswith(".parquet"))
        client.delete_object(Bucket=store.bucket, Key=lost)
        content = bytearray(client.get_object(Bucket=store.bucket, Key=altered)["Body"].read())
        content[60] ^= 1
        client.put_object(Bucket=store.bucket, Key=altered, Body=bytes(content))
        folder = altered.rpartition("/")[0]
        client.put_object(Bucket=store.bucket, Key=f"{folder}/orphan.avro", Body=seal_bytes(b"")[0])
        client.put_object(Bucket=store.bucket, Key=f"{folder}/plain.avro", Body=b"Obj\x01")
        result = plan("hr.t", catalog=catalog, orphan_age=timedelta(0)).execute()
        assert result.not_checked == (), str(result)
        assert {(finding.code, (finding.file or "").rpartition("/")[2]) for finding in result.findings} == {
            ("missing", lost.rpartition("/")[2]),
            ("altered", altered.rpartition("/")[2]),
            ("orphan", "orphan.avro"),
            ("plaintext", "plain.avro"),
        }
        assert result.exit_code == 1
