"""rewrap against real versions of OpenBao's keys, moto's KMS and a strict fake of AWS: what each of them proves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from moto.server import ThreadedMotoServer

import sealberg
from kit.servers.aws_kms import WHO, MotoRig
from kit.servers.fake_aws import FakeAws
from kit.servers.openbao import ROOT, OpenBao, openbao
from kit.tables.commits import ROWS, make, rows_of
from sealberg.errors import KeyDisabledError
from sealberg.jobs import keys, rewrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def connect(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Any]:
    def open_catalog(**kms: str) -> Any:
        own = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
        catalog = sealberg.load_catalog("test", **{**own, **kms})
        request.addfinalizer(catalog.close)
        catalog.create_namespace_if_not_exists("db")
        return catalog

    return open_catalog


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenBao]:
    with openbao(tmp_path_factory.mktemp("openbao")) as server:
        server.api("POST", "transit/keys/hr")
        yield server


def vault(server: OpenBao, folder: Path, token: str) -> dict[str, str]:
    file = folder / f"token-{len(token)}-{abs(hash(token))}"
    file.write_text(token)
    prefix = "encryption.kms.vault."
    return {"encryption.kms-type": "vault", f"{prefix}address": server.address, f"{prefix}token-file": str(file)}


def test_old_versions_of_openbao_can_be_disabled_after_rewrap(
    server: OpenBao, connect: Callable[..., Any], tmp_path: Path
) -> None:
    own = vault(server, tmp_path, ROOT)
    catalog = connect(**own)
    table = make(catalog)
    table.append(ROWS)
    server.api("POST", "transit/keys/hr/rotate")
    assert (
        "rewrap: version 1 of hr wraps 1 KEK, the newest is 2"
        in keys.plan("db.t", catalog=catalog).execute().tables[0].due
    )
    result = rewrap.plan("db.t", catalog=connect(**own)).execute()
    assert result.exit_code == 0
    assert "version 2 of hr opens every KEK" in result.outcomes[0].message
    server.api("POST", "transit/keys/hr/config", {"min_decryption_version": 2, "min_encryption_version": 2})
    assert rows_of(connect(**own).load_table("db.t")) == [1, 2, 3]
    older: Any = sealberg.open_table(table.metadata_location, properties=own)
    with pytest.raises(KeyDisabledError):  # an older metadata.json holds the KEK as it was
        rows_of(older)


def test_without_the_permission_to_see_versions_nothing_is_claimed(
    server: OpenBao, connect: Callable[..., Any], tmp_path: Path
) -> None:
    server.api("POST", "transit/keys/few")
    make(connect(**vault(server, tmp_path, ROOT)), "db.few", **{"encryption.key-id": "few"}).append(ROWS)
    few = server.token('path "transit/+/few" { capabilities = ["update"] }')
    result = rewrap.plan("db.few", catalog=connect(**vault(server, tmp_path, few))).execute()
    assert (result.exit_code, result.outcomes[0].status) == (2, "unproved")
    assert "does not let us see the versions" in result.outcomes[0].message


def test_moto_tells_no_version_so_rewrap_is_not_proved(connect: Callable[..., Any]) -> None:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        rig = MotoRig(f"http://{host}:{port}")
        own = {"encryption.kms-type": "aws", "kms.endpoint": rig.url, **WHO}
        table = make(connect(**own), **{"encryption.key-id": rig.key_id})
        table.append(ROWS)
        result = rewrap.plan("db.t", catalog=connect(**own)).execute()
        assert (result.exit_code, result.outcomes[0].facts["rewrapped"]) == (
            2,
            [key.key_id for key in table.metadata.encryption_keys.keks(rig.key_id)],
        )
        assert rows_of(connect(**own).load_table("db.t")) == [1, 2, 3]
    finally:
        server.stop()


def test_aws_proves_it_by_the_material_that_decrypts(connect: Callable[..., Any]) -> None:
    with FakeAws() as fake:
        key = fake.create()
        own = {"encryption.kms-type": "aws", "kms.endpoint": fake.url, **WHO}
        make(connect(**own), **{"encryption.key-id": key.arn}).append(ROWS)
        key.rotate()
        fake.seen.clear()
        result = rewrap.plan("db.t", catalog=connect(**own)).execute()
        assert (result.exit_code, result.outcomes[0].status) == (0, "done")
        assert [seen.operation for seen in fake.seen] == ["DescribeKey", "ReEncrypt", "Decrypt"]
        again = rewrap.plan("db.t", catalog=connect(**own)).execute()
        assert (again.exit_code, again.outcomes[0].status) == (0, "nothing")
        assert rows_of(connect(**own).load_table("db.t")) == [1, 2, 3]
