"""What a session needs is found, or one sentence says what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED
from kit.tables.catalogs import lake
from sealberg.errors import ConfigError
from sealberg.spark import network, sessions

if TYPE_CHECKING:
    from kit.programs.spark import SparkKit
    from kit.tables.catalogs import Lake

__all__ = ["lake"]  # a fixture


FAR = {
    sessions.SPILL: "true",
    "spark.master": "spark://far:7077",
    network.AUTHENTICATE: "true",
    network.CRYPTO: "true",
    network.CIPHER: network.GCM,
    network.FALLBACK: "false",
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (network.AUTHENTICATE, "false"),
        (network.CRYPTO, "false"),
        (network.CIPHER, "AES/CTR/NoPadding"),
        (network.FALLBACK, "true"),
    ],
)
def test_keys_do_not_cross_a_network_that_shows_them(name: str, value: str) -> None:
    sessions._check_clear_text(FAR)
    for wrong in ({**FAR, name: value}, {key: one for key, one in FAR.items() if key != name}):
        with pytest.raises(ConfigError, match=rf"found {name}={value}. Start Spark with {name}={FAR[name]} \(or"):
            sessions._check_clear_text(wrong)
        sessions._check_clear_text({**wrong, network.ALLOW_CLEAR_NETWORK: "true"})
        with pytest.raises(ConfigError, match="keys and rows could be read or changed"):
            sessions._check_clear_text({**wrong, "spark.master": "local-cluster[2,1,1024]"})
    tls = {**FAR, name: value, network.TLS: "true", network.AUTHENTICATE: "true"}
    sessions._check_clear_text(tls)


def test_a_local_session_asks_for_a_secret_too() -> None:
    safe = {sessions.SPILL: "true", "spark.master": "local[4]"}
    sessions._check_clear_text({**safe, network.AUTHENTICATE: "true"})
    with pytest.raises(ConfigError, match=r"other users of this host .* found spark.authenticate=false"):
        sessions._check_clear_text(safe)


def test_a_session_that_spills_in_the_clear_is_refused() -> None:
    open_disks = {"spark.master": "local", network.AUTHENTICATE: "true"}
    for off in ({}, {sessions.SPILL: "false"}):
        with pytest.raises(
            ConfigError, match=r"spark\.io\.encryption\.enabled is off: .*spark\.sealberg\.allowClearDisks"
        ):
            sessions._check_clear_text({**open_disks, **off})
    sessions._check_clear_text({**open_disks, "spark.sealberg.allowClearDisks": "true"})


def test_configure_protects_the_network_and_never_weakens_it() -> None:
    made = sessions.settings("prod", "j.jar", {})
    sessions._check_clear_text({**made, "spark.master": "spark://far:7077"})
    assert network.protection({network.CIPHER: "AES/CTR/NoPadding"}).keys().isdisjoint({network.CIPHER})
    assert network.protection({network.TLS: "true"}) == {network.AUTHENTICATE: "true"}
    assert network.protection({network.ALLOW_CLEAR_NETWORK: "true"}) == {}
    with pytest.warns(UserWarning, match="every user of this host can read it") as told:
        network.protection({network.SECRET: "hush"})
    assert "hush" not in str(told[0].message)


def test_properties_stay_in_python(kit: SparkKit) -> None:
    shown = repr(kit.spark.sparkContext.getConf().getAll()) + repr(kit.spark.conf.getAll)
    assert "encryption.kms" not in shown
    assert "sqlite" not in shown


def test_tables_of_every_catalog(kit: SparkKit, lake: Lake) -> None:
    import sealberg
    import sealberg.spark

    catalog = f"on_{lake.kind}"
    kit.spark.conf.set(f"spark.sql.catalog.{catalog}", sessions.CATALOG_CLASS)
    sealberg.spark.install(kit.spark, {catalog: lake.properties})
    ours: Any = lake.opened.enter_context(sealberg.load_catalog(catalog, **lake.properties))
    ours.create_namespace_if_not_exists("db")  # SQL catalogs of different names in one database share nothing
    for length in (16, 24, 32) if lake.kind == "sqlite" else (16,):
        name = f"{catalog}.db.t{length}"
        keyed = KEYED[:-1] + f", 'encryption.data-key-length' = '{length}')"
        kit.sql(f"CREATE TABLE {name} {keyed} AS SELECT id, id % 3 AS p FROM range(30)")
        kit.sql(f"DELETE FROM {name} WHERE p = 1")
        kit.sql(f"INSERT INTO {name} VALUES (100, 0)")
        kit.sql(f"UPDATE {name} SET p = 7 WHERE id = 0")
        assert kit.sql(f"SELECT count(*), sum(id), max(p) FROM {name}") == [(21, 390, 7)]
        assert ours.load_table(f"db.t{length}").scan().to_arrow().num_rows == 21
    empty = f"{catalog}.db.empty"
    kit.sql(f"CREATE TABLE {empty} (id bigint) {KEYED}")
    assert kit.sql(f"SELECT * FROM {empty}") == []
    assert kit.sql(f"SHOW TABLES IN {catalog}.db LIKE 'empty'") == [("db", "empty", False)]
    kit.sql(f"DROP TABLE {empty} PURGE")
    assert lake.magics() == {b"AGS1", b"PARE"}
    kit.spark.conf.unset(f"spark.sql.catalog.{catalog}")
