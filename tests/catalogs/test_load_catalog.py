"""`sealberg.load_catalog`: PyIceberg's configuration, PyIceberg's types, a local default, and refusals elsewhere."""

from __future__ import annotations

import pickle
import stat
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import SetPropertiesUpdate

import sealberg
from kit.servers.ports import free_port
from kit.servers.postgres import MEMORY_KMS
from sealberg.errors import CatalogUnavailableError, ConfigError, UnsupportedError
from sealberg.keys.keystore.jwk import Keystore, MasterKey
from sealberg.keys.keystore.kms import KeystoreFile
from sealberg.table.plain_table import PlainTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
ENCRYPTED = {"encryption.key-id": "hr"}


class OtherCatalog(InMemoryCatalog):
    """A catalog that knows nothing of encryption, as a REST, Hive or Glue one of PyIceberg."""


@pytest.fixture(autouse=True)
def _nobodys_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOME", "PYICEBERG_HOME", "SEALBERG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Any]:
    path = f"{OtherCatalog.__module__}.OtherCatalog"
    sys.modules.setdefault(OtherCatalog.__module__, sys.modules[__name__])
    with sealberg.load_catalog("x", **{"py-catalog-impl": path, "warehouse": f"file://{tmp_path}/w"}) as opened:
        opened.create_namespace("db")
        yield opened


def use(catalog: Any) -> None:
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
    table.append(ROWS)
    assert catalog.load_table("db.t").scan().to_arrow()["id"].to_pylist() == [1, 2, 3]


# -- configuration ----------------------------------------------------------------------------


def test_the_configuration_file_of_pyiceberg_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "pyiceberg_home"
    home.mkdir()
    lines = [
        "default-catalog: prod",
        "catalog:",
        "  prod:",
        f"    uri: sqlite:///{tmp_path}/prod.db",
        f"    warehouse: file://{tmp_path}/w",
        "    encryption.kms-type: memory",
        f"    encryption.kms.memory.key.hr: {'ab' * 16}",
    ]
    (home / ".pyiceberg.yaml").write_text("\n".join(lines))
    with sealberg.load_catalog("prod") as named:
        assert isinstance(named, SqlCatalog)
        assert named.name == "prod"
        use(named)
    with sealberg.load_catalog() as default:
        assert default.name == "prod"
        assert default.table_exists("db.t")
    with sealberg.load_catalog("prod", uri=f"sqlite:///{tmp_path}/other.db") as overridden:
        assert not overridden.table_exists("db.t")
    assert not (tmp_path / "sealberg_home").exists()


def test_environment_variables_of_pyiceberg_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/prod.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"file://{tmp_path}/w")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__ENCRYPTION__KMS_TYPE", "memory")
    with sealberg.load_catalog("prod", **{"encryption.kms.memory.key.hr": "ab" * 16}) as catalog:
        assert isinstance(catalog, SqlCatalog)
        assert catalog.properties["encryption.kms-type"] == "memory"
        use(catalog)


def test_a_catalog_in_memory_has_encrypted_tables_too(tmp_path: Path) -> None:
    with sealberg.load_catalog("m", type="in-memory", warehouse=f"file://{tmp_path}/w", **MEMORY_KMS) as catalog:
        assert isinstance(catalog, InMemoryCatalog)
        use(catalog)
        assert catalog.rename_table("db.t", "db.u").scan().to_arrow().num_rows == 3
        catalog.purge_table("db.u")
        with catalog.create_table_transaction("db.v", ROWS.schema, properties=ENCRYPTED) as transaction:
            transaction.append(ROWS)
        assert catalog.load_table("db.v").scan().to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"type": "sql"}, "URI missing"),
        ({"type": "abacus", "uri": "x"}, "abacus"),
        ({"uri": "gopher://x"}, "Could not infer the catalog type"),
        ({"type": "sql", "uri": "sqlite://", "py-catalog-impl": "a.B"}, "Must not set both"),
        ({"py-catalog-impl": "no.such.Catalog"}, "Could not initialize Catalog"),
    ],
)
def test_a_configuration_that_cannot_be_right_is_refused_in_the_words_of_pyiceberg(
    properties: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        sealberg.load_catalog("x", **properties)


def test_a_name_that_is_not_configured_is_not_taken_for_the_local_catalog(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no catalog prod is configured; there is no catalog in \.pyiceberg\.yaml"):
        sealberg.load_catalog("prod")
    assert not (tmp_path / "sealberg_home").exists()


# -- nothing configured -----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["SEALBERG_HOME", "HOME"])
def test_without_any_configuration_there_is_a_local_catalog_with_a_local_keystore(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by == "HOME":
        monkeypatch.delenv("SEALBERG_HOME")
    home = tmp_path / "sealberg_home" if by == "SEALBERG_HOME" else tmp_path / "home" / ".sealberg"
    home.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "correct horse")
    KeystoreFile(home / "keystore.age").create(
        Keystore().with_keys([MasterKey("hr", b"\x01" * 32)]), "correct horse", work_factor=10
    )
    with sealberg.load_catalog() as catalog:
        assert isinstance(catalog, SqlCatalog)
        use(catalog)
    with sealberg.load_catalog() as again:
        assert again.load_table("db.t").scan().to_arrow().num_rows == 3
    assert stat.S_IMODE((home / "catalog.db").stat().st_mode) == 0o600
    assert {path.name for path in home.iterdir()} == {"catalog.db", "keystore.age", "warehouse"}


def test_the_local_catalog_is_for_its_owner_only_from_the_first_moment(tmp_path: Path) -> None:
    home = tmp_path / "sealberg_home"
    sealberg.load_catalog().close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    (home / "catalog.db").chmod(0o644)
    sealberg.load_catalog().close()
    assert stat.S_IMODE((home / "catalog.db").stat().st_mode) == 0o600


def test_a_local_catalog_without_a_keystore_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBERG_PASSPHRASE", "correct horse")
    with sealberg.load_catalog() as catalog:
        catalog.create_namespace("db")
        with pytest.raises(
            ConfigError, match=r"no such file; restore it .* make one: `sealberg keystore create --key hr`"
        ):
            catalog.create_table("db.t", ROWS.schema, properties=ENCRYPTED)
        assert not catalog.table_exists("db.t")


def test_a_folder_with_a_space_is_a_folder_with_a_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path / "my lake"))
    with sealberg.load_catalog(**MEMORY_KMS) as catalog:
        use(catalog)
    assert {path.name for path in (tmp_path / "my lake").iterdir()} == {"catalog.db", "warehouse"}


# -- other catalogs ---------------------------------------------------------------------------


def test_other_catalogs_read_and_write_plain_tables_as_pyiceberg_does(other: Any) -> None:
    assert isinstance(other, OtherCatalog)
    table = other.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    assert isinstance(other.load_table("db.t"), PlainTable)
    with table.update_schema() as update:
        update.add_column("more", table.schema().find_type("id"))
    assert other.rename_table("db.t", "db.u").scan().to_arrow().num_rows == 3
    other.create_table_if_not_exists("db.u", ROWS.schema)


def test_other_catalogs_refuse_to_make_an_encrypted_table(other: Any) -> None:
    words = r"table db.t is encrypted, and encrypted tables in .*OtherCatalog catalogs are not supported yet"
    for make in (other.create_table, other.create_table_if_not_exists, other.create_table_transaction):
        with pytest.raises(UnsupportedError, match=words):
            make("db.t", ROWS.schema, properties=ENCRYPTED)
        with pytest.raises(UnsupportedError, match=words):
            make(("db", "t"), ROWS.schema, None, *_spec_and_order(), ENCRYPTED)
    assert not other.table_exists("db.t")


def test_other_catalogs_refuse_to_load_an_encrypted_table(other: Any, tmp_path: Path) -> None:
    settings = {"type": "in-memory", "warehouse": f"file://{tmp_path}/ours", **MEMORY_KMS}
    with sealberg.load_catalog("ours", **settings) as ours:
        use(ours)
        location = ours.load_table("db.t").metadata_location
    with pytest.raises(UnsupportedError, match="is encrypted"):
        other.register_table("db.t", location)
    with pytest.raises(UnsupportedError, match="is encrypted"):
        other.load_table("db.t")


def test_other_catalogs_do_not_let_a_plain_table_become_an_encrypted_one(other: Any) -> None:
    table = other.create_table("db.t", ROWS.schema)
    with pytest.raises(ConfigError, match="of a plaintext table"), table.transaction() as transaction:
        transaction.set_properties(ENCRYPTED)
    with pytest.raises(ConfigError, match="of a plaintext table"):
        other.commit_table(table, (), (SetPropertiesUpdate(updates=ENCRYPTED),))
    assert not other.load_table("db.t").properties


@pytest.mark.slow
def test_hive_and_glue_catalogs_are_those_of_pyiceberg_and_are_made_without_a_server() -> None:
    from pyiceberg.catalog.glue import GlueCatalog
    from pyiceberg.catalog.hive import HiveCatalog

    with sealberg.load_catalog("hive", uri="thrift://127.0.0.1:1") as hive:
        assert isinstance(hive, HiveCatalog)
    with sealberg.load_catalog("glue", **{"type": "glue", "glue.region": "eu-central-1"}) as glue:
        assert isinstance(glue, GlueCatalog)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "package"), [("hive", "thrift"), ("glue", "boto3")])
def test_a_missing_package_is_said_in_one_sentence(kind: str, package: str) -> None:
    program = f"""
import sys
sys.modules["{package}"] = None
import sealberg.errors
try:
    sealberg.load_catalog("x", type="{kind}", uri="thrift://127.0.0.1:1")
except sealberg.errors.ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (
        done.stdout.strip() == f"{kind} catalogs need the package {package}: pip install 'sealberg[{kind}]' brings it"
    )


def test_a_rest_catalog_is_the_one_of_pyiceberg_and_its_nested_settings_stay_nested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(RestCatalog, "_fetch_config", lambda _: None)
    auth: Any = {"type": "basic", "basic": {"username": "me", "password": "secret"}}
    with sealberg.load_catalog("rest", uri="http://127.0.0.1:1", auth=auth) as catalog:
        assert isinstance(catalog, RestCatalog)
        assert catalog.properties["auth"] == auth
        assert "secret" not in repr(catalog) + str(catalog)


def _spec_and_order() -> tuple[Any, Any]:
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    return UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER


@pytest.mark.parametrize(
    ("kind", "scheme", "who"), [("hive", "thrift", "the Hive Metastore at"), ("rest", "http", "the REST server")]
)
def test_a_server_that_does_not_answer_is_named(kind: str, scheme: str, who: str) -> None:
    uri = f"{scheme}://127.0.0.1:{free_port()}"
    asks: list[Callable[[Catalog], object]] = [
        lambda catalog: catalog.list_namespaces(),
        lambda catalog: catalog.list_tables("db"),
        lambda catalog: catalog.drop_table("db.t"),
        lambda catalog: catalog.create_namespace("db"),
    ]
    for ask in asks:  # a REST catalog asks already when it is loaded
        with pytest.raises(CatalogUnavailableError, match=f"{who} {uri}.* did not answer: .*Check that it") as caught:
            ask(sealberg.load_catalog("gone", type=kind, uri=uri))
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again)) == (type(caught.value), str(caught.value))
