"""Properties of a catalog from Spark's configuration and from the program; install as often as one likes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

import sealberg.spark
from kit.programs.spark import properties_of
from sealberg.errors import ConfigError
from sealberg.spark import sessions
from sealberg.spark.catalog_options import combined, holds_secret, options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kit.programs.spark import SparkKit

PREFIX = "spark.sql.catalog."


@pytest.fixture
def conf(kit: SparkKit) -> Iterator[Any]:
    """Sets options of the session, which are gone after the test."""
    before = set(kit.spark.conf.getAll)

    def put(name: str, value: str) -> None:
        kit.spark.conf.set(name, value)

    yield put
    for name in set(kit.spark.conf.getAll) - before:
        kit.spark.conf.unset(name)


@pytest.mark.parametrize(
    "key",
    [
        "password", "token", "credential", "s3.secret-access-key", "s3.access-key-id", "s3.session-token",
        "adls.account-key", "adls.sas-token", "adls.connection-string", "adls.client-secret", "gcs.oauth2.token",
        "hf.token", "header.Authorization", "auth.oauth2.client-secret", "encryption.kms.memory.key.hr",
        "encryption.kms.keystore.passphrase", "encryption.kms.vault.token", "encryption.kms.pkcs11.pin",
        "client.session-token", "glue.secret-access-key", "gcs.session-kwargs",
    ],
)  # fmt: skip
def test_a_secret_is_refused_by_name(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{PREFIX}prod\.{key} holds a secret.*PyIceberg's configuration") as error:
        options_of("prod", {f"{PREFIX}prod.{key}": "hush"})
    assert "hush" not in str(error.value)


def test_what_only_names_a_place_is_no_secret() -> None:
    for key in (
        "encryption.kms.keystore.passphrase-file",
        "encryption.kms.keystore.passphrase-env",
        "encryption.kms.vault.token-file",
        "oauth2-server-uri",
        "gcs.oauth2.token-expires-at",
    ):
        assert not holds_secret(key), key
    with pytest.raises(ConfigError, match=f"{PREFIX}prod.uri holds a secret") as error:
        options_of("prod", {f"{PREFIX}prod.uri": "postgresql://u:hush@db/lake"})
    assert "hush" not in str(error.value)


def test_an_option_that_nobody_knows_or_nobody_can_obey() -> None:
    with pytest.raises(ConfigError, match=rf"unknown option {PREFIX}prod\.warehose; known are type, uri, warehouse"):
        options_of("prod", {f"{PREFIX}prod.warehose": "x"})
    with pytest.raises(ConfigError, match=r"catalog-impl is not supported: a Java class; .* type"):
        options_of("prod", {f"{PREFIX}prod.catalog-impl": "org.apache.iceberg.hive.HiveCatalog"})
    with pytest.raises(ConfigError, match=r"uri has one value in .* and another in the properties"):
        combined("prod", {"uri": "a", "type": "sql"}, {"uri": "b", "type": "sql"})


def test_what_a_session_sets_is_refused_by_name(kit: SparkKit, conf: Any) -> None:
    own = properties_of(kit.folder)
    conf(f"{PREFIX}half", sessions.CATALOG_CLASS)
    conf(f"{PREFIX}half.default-namespace", "team")  # which concerns this session only
    sealberg.spark.install(kit.spark, {"half": own})
    kit.sql("CREATE NAMESPACE half.team")
    kit.sql("CREATE TABLE half.team.t TBLPROPERTIES ('encryption.key-id' = 'hr') AS SELECT 1 AS id")
    sealberg.spark.install(kit.spark)  # without the properties: the catalog keeps them
    current = kit.spark.catalog.currentCatalog()
    kit.sql("USE half")
    assert kit.sql("SELECT * FROM t") == [(1,)]
    kit.spark.catalog.setCurrentCatalog(current)
    for key, value in (("warehouse", own["warehouse"] + "2"), ("encryption.kms.vault.address", "http://127.0.0.1:1")):
        conf(f"{PREFIX}half.{key}", value)
        with pytest.raises(ConfigError, match=rf"this session has set {PREFIX}half\.{key}: .*install\(spark"):
            sealberg.spark.install(kit.spark, replace=True)
        for statement in ("SELECT * FROM half.team.t", "SHOW NAMESPACES IN half", "CREATE NAMESPACE half.new"):
            with pytest.raises(AnalysisException, match=rf"this session has set {PREFIX}half\.{key}: "):
                kit.sql(statement)
        kit.spark.conf.unset(f"{PREFIX}half.{key}")
        assert kit.sql("SELECT * FROM half.team.t") == [(1,)]


def test_a_program_takes_what_other_sessions_set_for_nothing(kit: SparkKit) -> None:
    other = kit.spark.newSession()
    other.conf.set(f"{PREFIX}prod.warehouse", "file:///tmp/attacker")
    with pytest.raises(AnalysisException, match=rf"this session has set {PREFIX}prod\.warehouse"):
        other.sql("SHOW NAMESPACES IN prod").collect()
    assert ("hr",) in kit.sql("SHOW NAMESPACES IN prod")


def test_install_takes_catalogs_in_any_order(kit: SparkKit, conf: Any) -> None:
    conf(f"{PREFIX}late", sessions.CATALOG_CLASS)
    with pytest.raises(Exception, match="no catalog late is configured"):
        sealberg.spark.install(kit.spark)  # nobody has said where its tables are
    with pytest.raises(ConfigError, match=r"no catalog nowhere in this session; it has .*late"):
        sealberg.spark.install(kit.spark, {"nowhere": {}})
    sealberg.spark.install(kit.spark, {"late": properties_of(kit.folder)})
    sealberg.spark.install(kit.spark)
    kit.sql("CREATE NAMESPACE late.ns")
    other = {**properties_of(kit.folder), "encryption.kms.memory.key.more": "ab" * 16}
    with pytest.raises(ConfigError, match=r"catalog late of this session has other properties already: encryption.kms"):
        sealberg.spark.install(kit.spark, {"late": other})
    sealberg.spark.install(kit.spark, {"late": other}, replace=True)
    assert ("ns",) in kit.sql("SHOW NAMESPACES IN late")
