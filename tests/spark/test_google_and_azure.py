"""Tables in Google Cloud Storage and in Azure, by Spark's tasks: Google's connector and ABFS against local servers.

fake-gcs-server takes requests without credentials, which the connector has to be told. Azurite speaks only the blob
interface of Azure and refuses a wrong key; ABFS has to be told to use that interface. Both are settings that the user
makes for Hadoop; everything else comes from the catalog.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pyiceberg.io import load_file_io

from kit.programs.spark import KEYED
from kit.programs.spark_lake import DATA, catalog_of, properties_of, session_settings
from kit.servers.hadoop_connectors import gcs_connector, hadoop_azure
from kit.servers.store_proxy import store_proxy
from kit.servers.store_servers import AZURE_ACCOUNT, azure, gcs, sas_token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kit.programs.spark import SparkKit
    from kit.servers.store_servers import Store

OF_THE_USER = {
    "gs": {"fs.gs.auth.type": "UNAUTHENTICATED"},
    "abfs": {"fs.azure.account.hns.enabled": "false", "fs.azure.fns.account.service.type": "BLOB"},
}


def google(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Python finds a service account in the environment; the token of `gcs()` would be refused on Spark."""
    gcs_connector()
    store = gcs()
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"type": "service_account", "project_id": "test", "private_key_id": "1", "private_key": key.decode()}
    account |= {"client_email": "lake@test.iam.gserviceaccount.com", "client_id": "1"}
    (folder / "account.json").write_text(json.dumps(account | {"token_uri": "http://127.0.0.1:9/not-asked"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(folder / "account.json"))
    return replace(store, properties={n: v for n, v in store.properties.items() if not n.startswith("gcs.oauth2")})


def microsoft(_folder: Path, _monkeypatch: pytest.MonkeyPatch) -> Store:
    """Locations have the account, as Hadoop needs it."""
    hadoop_azure()
    store = azure()
    return replace(store, bucket=f"{store.bucket}@{AZURE_ACCOUNT}.dfs.core.windows.net")


def microsoft_by_sas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The same with a SAS token for the account, as REST catalogs vend it, instead of the account's key."""
    store = microsoft(folder, monkeypatch)
    given = {name: value for name, value in store.properties.items() if name != "adls.account-key"}
    token = sas_token(store.bucket.partition("@")[0])
    return replace(store, properties={**given, f"adls.sas-token.{AZURE_ACCOUNT}.dfs.core.windows.net": token})


@pytest.mark.parametrize("make", [google, microsoft])
def test_every_statement_works_and_nothing_is_in_the_clear(
    make: Callable[[Path, pytest.MonkeyPatch], Store], kit: SparkKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = make(tmp_path, monkeypatch)
    with store_proxy(plain.address) as proxy:
        given = properties_of(tmp_path, plain.through(proxy.address))
        with catalog_of(kit, "cloud", given) as catalog, session_settings(kit, OF_THE_USER[plain.kind]):
            merge_on_read = ", ".join(f"'write.{each}.mode' = 'merge-on-read'" for each in ("delete", "merge"))
            kit.sql(
                "CREATE TABLE cloud.hr.t (id bigint, s string) "
                f"TBLPROPERTIES ('encryption.key-id' = 'hr', {merge_on_read})"
            )
            kit.sql("INSERT INTO cloud.hr.t SELECT id, concat('canary-', id) FROM range(0, 1000, 1, 1)")
            kit.sql("DELETE FROM cloud.hr.t WHERE id < 10")
            kit.sql(
                "MERGE INTO cloud.hr.t t USING (SELECT explode(array(5L, 30L)) AS id) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET s = 'm' WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'n')"
            )
            with proxy.counting() as seen:
                assert kit.sql("SELECT count(*), count_if(s = 'm'), count_if(s = 'n') FROM cloud.hr.t") == [(991, 1, 1)]
            assert seen.count("GET", DATA) > 0, "the tasks did not go through the address of the catalog"
            table = catalog.load_table("hr.t")
            assert table.scan("s == 'n'").to_arrow().to_pylist() == [{"id": 5, "s": "n"}]
            for path in table.inspect.data_files().column("file_path").to_pylist():
                with load_file_io(dict(table.io.properties)).new_input(unaccounted(path)).open() as stream:
                    content = stream.read()
                assert content[:4] == b"PARE"
                assert b"canary" not in content


def test_a_sas_token_of_the_account_reaches_the_tasks(
    kit: SparkKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = properties_of(tmp_path, microsoft_by_sas(tmp_path, monkeypatch))
    with catalog_of(kit, "sas", given), session_settings(kit, OF_THE_USER["abfs"]):
        kit.sql(f"CREATE TABLE sas.hr.t (id bigint) {KEYED}")
        kit.sql("INSERT INTO sas.hr.t SELECT id FROM range(0, 10, 1, 1)")
        assert kit.sql("SELECT sum(id) FROM sas.hr.t") == [(45,)]


def unaccounted(location: str) -> str:
    """PyArrow's FileIO alone does not read an account in a location."""
    return location.replace(f"@{AZURE_ACCOUNT}.dfs.core.windows.net", "")
