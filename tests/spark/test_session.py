"""What a session needs is found, or one sentence says what is missing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import KEYED
from kit.tables.catalogs import lake
from sealberg.errors import AccessDeniedError, ConfigError
from sealberg.spark import jar, network, sessions

if TYPE_CHECKING:
    from pathlib import Path

    from kit.programs.spark import SparkKit
    from kit.tables.catalogs import Lake

__all__ = ["lake"]  # a fixture


def test_the_jar_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[Path] = []

    def compiled(_sources: object, _jars: object, to: Path) -> None:
        made.append(to)
        to.touch()

    monkeypatch.setattr(jar, "_compile", compiled)
    assert jar.find_jar() == jar.find_jar() == made[0]
    assert len(made) == 1


def test_what_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match=r"no javac found: .* by a JDK 17 or newer"):
        jar.find_jar()
    old = tmp_path / "javac"
    old.write_text("#!/bin/sh\necho javac 11.0.2\n")
    old.chmod(0o700)
    with pytest.raises(ConfigError, match="is of Java 11, 17 or newer is needed"):
        jar.find_jar()
    old.write_text("#!/bin/sh\necho javac 1.8.0_392 >&2\n")
    with pytest.raises(ConfigError, match="is of Java 8, 17 or newer is needed"):
        jar.find_jar()
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(ConfigError, match=r"Spark 3\.5\.1 is too old: sealberg needs Spark 4\.1 or newer"):
        jar.find_jar()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ConfigError, match=r"Spark is not installed: pip install 'sealberg\[spark\]' brings it"):
        jar.find_jar()


def test_a_cache_that_others_can_write_to_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jar, "_compile", lambda _sources, _jars, to: to.touch())
    made = jar.find_jar()
    folder = made.parent
    folder.chmod(0o777)
    with pytest.raises(AccessDeniedError, match=r"mode 0777, so others may write to it: set XDG_CACHE_HOME"):
        jar.find_jar()
    folder.chmod(0o700)
    made.chmod(0o666)
    with pytest.raises(AccessDeniedError, match=r"\.jar has mode 0666, so others may write to it"):
        jar.find_jar()
    made.rename(folder / "elsewhere.jar")
    made.symlink_to(folder / "elsewhere.jar")
    with pytest.raises(AccessDeniedError, match="is a symbolic link, which is not followed"):
        jar.find_jar()
    made.unlink()
    assert jar.find_jar() == made
    tmp_path.chmod(0o777)
    with pytest.raises(AccessDeniedError, match=r"mode 0777, so others could replace .*: set XDG_CACHE_HOME"):
        jar.find_jar()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user: run this test as root")
def test_a_jar_of_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jar, "_compile", lambda _sources, _jars, to: to.touch())
    made = jar.find_jar()
    os.chown(made, 65534, 65534)
    with pytest.raises(AccessDeniedError, match="belongs to uid 65534, expected 0 or 0"):
        jar.find_jar()
    made.unlink()
    os.chown(made.parent, 65534, 65534)
    with pytest.raises(AccessDeniedError, match="belongs to uid 65534"):
        jar.find_jar()


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
    with pytest.warns(UserWarning, match="is off: what Spark spills"):
        sessions._check_clear_text({"spark.master": "local", network.AUTHENTICATE: "true"})


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
