"""Object stores on loopback. All tests of a pytest worker share one process of each server.

    s3()        moto_server: fast, accepts any credentials           a package of the test group
    s3proxy()   s3proxy: refuses a wrong signature                  a jar from Maven
    gcs()       fake-gcs-server                                     built with Go from the module proxy, once
    azure()     azurite: refuses a wrong key                        installed with npm, once

    store = s3()
    sealberg.load_catalog("lake", type="sql", uri=..., warehouse=store.warehouse, **store.properties)
    store.through(proxy.address)     the same store, reached through a proxy (kit.store_proxy)

Each call gives a new, empty bucket. Objects are in memory or in a temporary folder, and disappear with the process.
Programs that are built or installed are kept in the cache folder of the user, under their version. `make test` prepares
them before the tests begin: `python -m kit.servers.store_servers`.
"""

from __future__ import annotations

import atexit
import datetime as dt
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import pytest
import requests

from kit import leftovers
from kit.programs.commands import alone, jdk, need
from kit.programs.maven import bring
from kit.servers.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

FAKE_GCS: Final = "github.com/fsouza/fake-gcs-server@v1.56.1"
AZURITE: Final = "azurite@3.35.0"
S3PROXY: Final = "org.gaul:s3proxy:4.1.0:jar:jar-with-dependencies"
READY_S: Final = 180.0
ACCESS_KEY: Final = "lake-access-key"
SECRET_KEY: Final = "lake-secret-key"
AZURE_ACCOUNT: Final = "devstoreaccount1"  # the account that every Azurite has, with its published key
AZURE_KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Store:
    """An empty bucket of a running server.

    Args:
        kind: "s3", "gs" or "abfs": the scheme of its locations.
        address: the URL of the server.
        bucket: the name of the bucket, or of the container.
        properties: what PyIceberg's FileIO needs to reach the store.
    """

    kind: str
    address: str
    bucket: str
    properties: dict[str, str]

    @property
    def warehouse(self) -> str:
        return f"{self.kind}://{self.bucket}/warehouse"

    def through(self, address: str) -> Store:
        """The same store, reached at another address."""
        old, new = urlsplit(self.address).netloc, urlsplit(address).netloc
        moved = {name: value.replace(old, new) for name, value in self.properties.items()}
        return replace(self, address=address, properties=moved)


def s3() -> Store:
    """A bucket of moto, which accepts any credentials."""
    return _s3_bucket(_moto())


def s3proxy() -> Store:
    """A bucket of s3proxy, which refuses wrong credentials."""
    return _s3_bucket(_s3proxy())


def gcs() -> Store:
    """A bucket of fake-gcs-server, which accepts any token."""
    address, bucket = _fake_gcs(), _name()
    made = requests.post(f"{address}/storage/v1/b?project=test", json={"name": bucket}, timeout=60)
    made.raise_for_status()
    properties = {
        "gcs.service.host": address,
        "gcs.project-id": "test",
        "gcs.oauth2.token": "ya29.any-token",
        "gcs.oauth2.token-expires-at": "4102444800000",  # PyArrow takes no token without the time
    }
    return Store("gs", address, bucket, properties)


def azure() -> Store:
    """A container of Azurite; `abfs://container/path`, since Azurite has no host name with the account in it."""
    from pyarrow.fs import AzureFileSystem

    address, container = _azurite(), _name()
    authority = urlsplit(address).netloc
    AzureFileSystem(
        AZURE_ACCOUNT,
        account_key=AZURE_KEY,
        blob_storage_authority=authority,
        dfs_storage_authority=authority,
        blob_storage_scheme="http",
        dfs_storage_scheme="http",
    ).create_dir(container)
    properties = {
        "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
        "adls.account-name": AZURE_ACCOUNT,
        "adls.account-key": AZURE_KEY,
        "adls.blob-storage-authority": authority,
        "adls.dfs-storage-authority": authority,
        "adls.blob-storage-scheme": "http",
        "adls.dfs-storage-scheme": "http",
    }
    return Store("abfs", address, container, properties)


def sas_token(container: str) -> str:
    """A SAS token for one container of `azure()`, for an hour."""
    blob = pytest.importorskip("azure.storage.blob")
    end = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    token: str = blob.generate_container_sas(
        AZURE_ACCOUNT, container, account_key=AZURE_KEY, permission="rwdlc", expiry=end
    )
    return token


def with_fsspec(store: Store) -> Store:
    """The same store of S3 or Azure for PyIceberg's FsspecFileIO; adlfs needs other properties for a local server."""
    more = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    if store.kind == "abfs":
        more["adls.connection-string"] = (
            f"DefaultEndpointsProtocol=http;AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY};"
            f"BlobEndpoint={store.address}/{AZURE_ACCOUNT};"
        )
    return replace(store, properties={**store.properties, **more})


ALL: Final[dict[str, Callable[[], Store]]] = {"s3": s3, "s3proxy": s3proxy, "gcs": gcs, "azure": azure}


def s3_client(store: Store) -> Any:
    """A boto3 client of an S3 store, to look at its objects."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=store.address,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )


def _s3_bucket(address: str) -> Store:
    properties = {
        "s3.endpoint": address,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "s3.region": "us-east-1",
    }
    store = Store("s3", address, _name(), properties)
    s3_client(store).create_bucket(Bucket=store.bucket)
    return store


def _name() -> str:
    return f"lake-{uuid.uuid4().hex[:12]}"


# -- the processes --------------------------------------------------------------------------------


@cache
def _moto() -> str:
    port = free_port()
    started([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port)
    return f"http://127.0.0.1:{port}"


@cache
def _s3proxy() -> str:
    jar, port = bring(S3PROXY)[0], free_port()
    folder = _folder()
    (folder / "objects").mkdir()
    (folder / "s3proxy.conf").write_text(
        f"s3proxy.authorization=aws-v2-or-v4\ns3proxy.endpoint=http://127.0.0.1:{port}\n"
        f"s3proxy.identity={ACCESS_KEY}\ns3proxy.credential={SECRET_KEY}\ns3proxy.ignore-unknown-headers=true\n"
        "jclouds.provider=filesystem-nio2\njclouds.identity=unused\njclouds.credential=unused\n"
        f"jclouds.filesystem.basedir={folder / 'objects'}\n"
    )
    frugal = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    started([str(jdk().java), *frugal, "-jar", str(jar), "--properties", str(folder / "s3proxy.conf")], port)
    return f"http://127.0.0.1:{port}"


@cache
def _fake_gcs() -> str:
    program, port = fake_gcs_program(), free_port()
    host = f"127.0.0.1:{port}"
    arguments = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory"]
    started([str(program), *arguments, "-public-host", host, "-log-level", "warn"], port)
    return f"http://{host}"


@cache
def _azurite() -> str:
    program, port = azurite_program(), free_port()
    arguments = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
    arguments += ["--skipApiVersionCheck", "--disableTelemetry"]
    started([str(need("node", apt="nodejs")), str(program), *arguments], port)
    return f"http://127.0.0.1:{port}"


def fake_gcs_program() -> Path:
    """fake-gcs-server, built on first use; the build takes minutes."""
    return _kept(FAKE_GCS, "fake-gcs-server", lambda folder: _build_go(FAKE_GCS, folder))


def azurite_program() -> Path:
    """Azurite's blob server."""
    return _kept(AZURITE, "node_modules/azurite/dist/src/blob/main.js", lambda folder: _install_npm(AZURITE, folder))


def _build_go(module: str, folder: Path) -> None:
    go = need("go", apt="golang-go")
    _run([str(go), "install", module], {"GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"})


def _install_npm(package: str, folder: Path) -> None:
    npm = need("npm", apt="npm")
    _run([str(npm), "install", "--prefix", str(folder), "--omit=dev", "--ignore-scripts", "--no-audit", package], {})


def _kept(name: str, program: str, make: Callable[[Path], None]) -> Path:
    """The program in the cache; it is made if it is missing."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sealberg" / "programs"
    folder = cached / name.rpartition("/")[2]
    with alone(folder.name):
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            make(part)
            part.rename(folder)
    return folder / program


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=1200, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        pytest.skip(
            f"{' '.join(command)} failed, so this store cannot run: {(done.stdout + done.stderr).strip()[-300:]}"
        )


def started(command: list[str], port: int) -> None:
    """Run a server until this process ends, and wait until it listens."""
    folder = _folder()
    if shutil.which("setpriv"):  # of util-linux: the server ends with this process, however that ends
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    leftovers.lasts(lambda: _stop(process), lambda: {leftovers.process(process.pid)})
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"{command[0]} does not listen:\n{(folder / 'log').read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(60)


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sealberg-store-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def main() -> None:
    """Build or install the servers that need it; this can take longer than the time limit of a test."""
    for bring_one in (fake_gcs_program, azurite_program, lambda: bring(S3PROXY)):
        try:
            bring_one()
        except pytest.skip.Exception as missing:  # in CI its tests fail, elsewhere they are skipped
            print(missing)


if __name__ == "__main__":
    main()
