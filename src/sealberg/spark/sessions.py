"""What a Spark session must have for encrypted tables, and the way into its JVM.

    before it starts   the jar, the catalog's name, encrypted shuffle and spill, a network that asks for a secret,
                       Python workers that have sealberg
    after              the socket of `bridge_server`, by which the JVM calls Python

The JVM learns the catalog's name and nothing else: properties may hold secrets, and Spark shows its configuration
in its UI, its event log and its REST pages. They wait here, in this process, until `install`.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError
from sealberg.spark.jar import find_jar
from sealberg.spark.network import check_network, protection
from sealberg.table.catalogs import LOCAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

CATALOG_CLASS: Final = "sealberg.SealedCatalog"
SPILL: Final = "spark.io.encryption.enabled"

_properties: dict[str, dict[str, str]] = {}


def session(
    catalog: str = LOCAL, properties: Mapping[str, str] | None = None, master: str | None = None, **conf: str
) -> SparkSession:
    """A session with one catalog, ready to be used; on this machine's cores unless a master is given or configured.

    Args:
        catalog: the name of the catalog, in SQL and for `load_catalog`; `local` needs no configuration.
        properties: as for `load_catalog`, on top of what PyIceberg's configuration says of it.
        master: of Spark.
        conf: more of Spark's configuration.
    """
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master is not None or not SparkConf().contains("spark.master"):
        builder = builder.master(master or "local[*]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark: SparkSession = configure(builder, catalog=catalog, properties=properties).getOrCreate()
    install(spark)
    return spark


def configure(builder: Any, catalog: str = LOCAL, properties: Mapping[str, str] | None = None) -> Any:
    """The builder, with all that must be known before Spark starts; `install` follows when it has.

    Args:
        builder: a `SparkSession.builder`.
        catalog: the name of the catalog, in SQL and for `load_catalog`.
        properties: as for `load_catalog`, on top of what PyIceberg's configuration says of it.
    """
    _properties[catalog] = dict(properties or {})
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings(catalog, str(find_jar()), getattr(builder, "_options", {})).items():
        builder = builder.config(name, value)
    return builder


def settings(catalog: str, jar: str, given: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The configuration that a session needs, as far as Spark may know it."""
    jars = [one for one in str((given or {}).get("spark.jars", "")).split(",") if one and one != jar]
    return {
        "spark.jars": ",".join([*jars, jar]),
        f"spark.sql.catalog.{catalog}": CATALOG_CLASS,
        SPILL: "true",
        **protection(given or {}),
    }


def install(spark: SparkSession, properties: Mapping[str, Mapping[str, str]] | None = None) -> None:
    """Put Python behind the catalogs of this session.

    Args:
        spark: a session that was configured with `configure`, or with what `sealberg spark-conf` prints.
        properties: of catalogs, by name, where they were not given to `configure`.
    """
    context = getattr(spark, "sparkContext", None) if _is_classic(spark) else None
    if context is None:
        raise ConfigError("Spark Connect has no way from the server to this Python process: use a classic session")
    conf = dict(context.getConf().getAll())
    _check_clear_text(conf)
    jvm = context._jvm  # noqa: SLF001 (pyspark has no public name for it)
    if type(jvm.sealberg.Bridge).__name__ == "JavaPackage":
        raise ConfigError(
            "this session was started without the jar of sealberg: use sealberg.spark.configure on its builder, "
            "or start Spark with what `sealberg spark-conf` prints"
        )
    from sealberg.spark.backend import Backend
    from sealberg.spark.bridge_server import bridge_server
    from sealberg.table.catalogs import load_catalog

    server = bridge_server()
    names = [
        name.removeprefix("spark.sql.catalog.")
        for name, value in {**conf, **_sql_conf(spark)}.items()
        if name.startswith("spark.sql.catalog.") and value == CATALOG_CLASS
    ]
    for name in names:
        given = {**_properties.get(name, {}), **(properties or {}).get(name, {})}
        server.dispatcher.install(name, Backend(load_catalog(name, **given)))
        # By py4j, which has a secret of its own: Spark's configuration is shown in its UI and its event log.
        jvm.sealberg.Bridge.install(name, server.path, server.token)


def _is_classic(spark: SparkSession) -> bool:
    return not type(spark).__module__.startswith("pyspark.sql.connect")


def _sql_conf(spark: SparkSession) -> dict[str, str]:
    # A session that existed already takes what a builder adds for SQL, though not into its context.
    return dict(spark.conf.getAll)


def _check_clear_text(conf: Mapping[str, str]) -> None:
    """Rows go to local disks; keys and rows go over the network between driver and executors."""
    if conf.get(SPILL, "false") != "true":
        warnings.warn(f"{SPILL} is off: what Spark spills to local disks is not encrypted", stacklevel=3)
    check_network(conf)
