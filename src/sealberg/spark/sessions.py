"""What a Spark session must have for encrypted tables, and the way into its JVM.

    before it starts   the jar, the catalog's name, encrypted shuffle and spill, a network that asks for a secret,
                       Python workers that have sealberg
    after              the socket of `bridge_server`, by which the JVM calls Python

The JVM learns the catalog's name and nothing else of what a program gives here: properties may hold secrets, and Spark
shows its configuration in its UI, its event log and its REST pages. They wait in this process until `install`, which
also takes what is in spark.sql.catalog.NAME.*; `catalog_options` has the rule between the two.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from sealberg.catalogs.load import default_catalog
from sealberg.errors import ConfigError
from sealberg.spark.catalog_options import (
    CATALOG_CLASS,
    PREFIX,
    SESSION_CATALOG,
    SESSION_CATALOG_CLASS,
    check_session,
    check_settings,
    class_of,
    combined,
    options_of,
)
from sealberg.spark.jar import check_java, check_spark, find_jar
from sealberg.spark.local_disks import SPILL, check_local_disks
from sealberg.spark.network import check_network, protection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["CATALOG_CLASS", "SPILL", "configure", "install", "session", "settings"]

PROGRAM_SERVES: Final = "spark.sealberg.programServes"  # the JVM must not start a Python of its own

AT_THE_SERVER: Final = (
    "put them into PyIceberg's configuration on the server's machine, or into a file that "
    "spark.sealberg.properties-file names there"
)

_properties: dict[str, dict[str, str]] = {}  # of catalogs, as the program gave them to `configure`
_given: dict[tuple[str, str], Mapping[str, str]] = {}  # of application and catalog: what the last `install` was given
_installed: dict[tuple[str, str], Mapping[str, str]] = {}  # the same: all that the catalog was loaded with


def session(
    catalog: str | None = None,
    properties: Mapping[str, str] | None = None,
    master: str | None = None,
    **conf: str,
) -> SparkSession:
    """A session with one catalog, ready to be used; on this machine's cores unless a master is given or configured.

    Args:
        catalog: the name of the catalog, in SQL and for `load_catalog`; without a name, the default catalog of
            `load_catalog`, which is `local` where nothing is configured.
        properties: as for `load_catalog`, on top of what PyIceberg's configuration says of it.
        master: of Spark.
        conf: more of Spark's configuration.

    Raises:
        ConfigError: Spark or Java is missing, or the properties cannot be right.
    """
    check_spark()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        check_java()
    builder = SparkSession.builder
    if master is not None or not SparkConf().contains("spark.master"):
        builder = builder.master(master or "local[*]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder, catalog=catalog, properties=properties).getOrCreate()
    install(spark)
    return spark


def configure(
    builder: SparkSession.Builder, catalog: str | None = None, properties: Mapping[str, str] | None = None
) -> SparkSession.Builder:
    """The builder, with all that must be known before Spark starts; `install` follows when it has.

    Args:
        builder: a `SparkSession.builder`.
        catalog: the name of the catalog, in SQL and for `load_catalog`; without a name, the default catalog.
        properties: as for `load_catalog`, on top of what PyIceberg's configuration says of it.
    """
    catalog = catalog or default_catalog()
    given: dict[str, Any] = getattr(builder, "_options", {})
    remote = "spark.remote" in given or "SPARK_REMOTE" in os.environ
    if remote and properties:
        raise ConfigError(
            f"the properties of catalog {catalog} cannot reach a server of Spark Connect: {AT_THE_SERVER}"
        )
    _properties[catalog] = dict(properties or {})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings(catalog, str(find_jar()), given).items():
        builder = builder.config(name, value)
    return builder if remote else builder.config(PROGRAM_SERVES, "true")


def settings(catalog: str, jar: str, given: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The configuration that a session needs, as far as Spark may know it."""
    jars = [one for one in str((given or {}).get("spark.jars", "")).split(",") if one and one != jar]
    return {
        "spark.jars": ",".join([*jars, jar]),
        f"{PREFIX}{catalog}": class_of(catalog),
        SPILL: "true",
        **protection(given or {}),
    }


def install(
    spark: SparkSession, properties: Mapping[str, Mapping[str, str]] | None = None, *, replace: bool = False
) -> None:
    """Put this Python process behind the catalogs of this session; call it again for catalogs that came since.

    A session of Spark Connect needs no `install`: its server starts a Python process when a catalog is first used.

    Args:
        spark: a session that was configured with `configure`, or with what `sealberg spark-conf` prints.
        properties: of catalogs, by name, on top of what was given to `configure`. They are kept: a later `install`
            without them leaves the catalog as it is.
        replace: a catalog that has other properties already gets these; without it, that is an error.

    Raises:
        ConfigError: a catalog is not of this session, or has other properties already, or gets a secret from Spark.
    """
    context = getattr(spark, "sparkContext", None) if _is_classic(spark) else None
    if context is None:
        if properties:
            raise ConfigError(f"the properties of catalogs cannot reach a server of Spark Connect: {AT_THE_SERVER}")
        return  # the server starts a Python process of its own
    conf = dict(context.getConf().getAll())
    check_settings(conf)
    _check_clear_text(conf)
    jvm = context._jvm  # noqa: SLF001 (pyspark has no public name for it)
    if type(jvm.sealberg.bridge.PythonBridge).__name__ == "JavaPackage":
        raise ConfigError(
            "this session was started without the jar of sealberg: use sealberg.spark.configure on its builder, "
            "or start Spark with what `sealberg spark-conf` prints"
        )
    from sealberg.catalogs.load import load_catalog
    from sealberg.spark.driver.backend import Backend
    from sealberg.spark.driver.bridge_server import bridge_server

    server = bridge_server()
    session_conf = _sql_conf(spark)
    names = [
        name.removeprefix(PREFIX)
        for name, value in (conf | session_conf).items()
        if name.startswith(PREFIX) and value in (CATALOG_CLASS, SESSION_CATALOG_CLASS)
    ]
    _check_names(names, properties or {})
    for name in names:
        key = (str(context.applicationId), name)
        given = (properties or {}).get(name, _given.get(key, {}))
        changed = {key for key, value in session_conf.items() if conf.get(key) != value}
        check_session(name, [key for key in changed if key.startswith(f"{PREFIX}{name}.")], own=True)
        start = jvm.sealberg.bridge.SessionSettings.startOptions(name)
        options = options_of(name, {f"{PREFIX}{name}.{key}": start[key] for key in start})
        wanted = combined(name, options, {**_properties.get(name, {}), **given})
        if _is_installed(key, wanted, replace=replace) and server.dispatcher.serves(name):
            continue
        backend = Backend(load_catalog(name, **wanted))
        server.dispatcher.install(name, backend)
        _installed[key], _given[key] = wanted, given
        # By py4j, which has a secret of its own: Spark's configuration is shown in its UI and its event log.
        jvm.sealberg.bridge.PythonBridge.install(name, server.path, server.token, backend.has_java_kms)


def _check_names(names: list[str], properties: Mapping[str, object]) -> None:
    if unknown := sorted(name for name in properties if name not in names):
        raise ConfigError(
            f"no catalog {', '.join(unknown)} in this session; it has {', '.join(names) or 'none'}. "
            f"Set {PREFIX}NAME={CATALOG_CLASS} first, or {PREFIX}{SESSION_CATALOG}={SESSION_CATALOG_CLASS}"
        )


def _is_installed(key: tuple[str, str], wanted: Mapping[str, str], *, replace: bool) -> bool:
    """Is this catalog served already, with these properties?"""
    before = _installed.get(key)
    if before is None or before == wanted:
        return before is not None
    if not replace:
        differ = sorted(name for name in before.keys() | wanted.keys() if before.get(name) != wanted.get(name))
        raise ConfigError(
            f"catalog {key[1]} of this session has other properties already: {', '.join(differ)} differ. Give the "
            "catalog another name, or call sealberg.spark.install(spark, {...}, replace=True)"
        )
    return False


def _is_classic(spark: SparkSession) -> bool:
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _sql_conf(spark: SparkSession) -> dict[str, str]:
    # A session that existed already takes what a builder adds for SQL, though not into its context.
    return dict(spark.conf.getAll)


def _check_clear_text(conf: Mapping[str, str]) -> None:
    """Rows go to local disks; keys and rows go over the network between driver and executors."""
    check_network(conf)
    check_local_disks(conf)
