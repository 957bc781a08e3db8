"""Spark's network settings that protect keys and rows, and the check that a session has them.

    every master   spark.authenticate=true                        Spark's ports serve only clients with the secret
    not local      spark.network.crypto.enabled=true              encryption by Spark,
                   spark.network.crypto.cipher=AES/GCM/NoPadding  authenticated (AES/CTR does not detect changes),
                   spark.network.crypto.saslFallback=false        without a fallback to weaker settings
             or    spark.ssl.rpc.enabled=true                     TLS

    protection(given)     the settings that a session needs in addition to the user's own
    check_network(conf)   refuses a running session without them

A local session needs authentication too: its block manager listens on a port and would give cached rows to any user of
the host.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

ALLOW_CLEAR_NETWORK: Final = "spark.sealberg.allowClearNetwork"
AUTHENTICATE: Final = "spark.authenticate"
CRYPTO: Final = "spark.network.crypto.enabled"
CIPHER: Final = "spark.network.crypto.cipher"
FALLBACK: Final = "spark.network.crypto.saslFallback"
SECRET: Final = "spark.authenticate.secret"  # noqa: S105 (the name of a setting)
ENGINE: Final = "spark.network.crypto.authEngineVersion"
TLS: Final = "spark.ssl.rpc.enabled"
GCM: Final = "AES/GCM/NoPadding"
_SAFE: Final = {AUTHENTICATE: "true", CRYPTO: "true", CIPHER: GCM, FALLBACK: "false", ENGINE: "2"}
_DEFAULTS: Final = {
    AUTHENTICATE: "false",
    CRYPTO: "false",
    CIPHER: "AES/CTR/NoPadding",
    FALLBACK: "true",
    TLS: "false",
    ALLOW_CLEAR_NETWORK: "false",
}


def protection(given: Mapping[str, Any]) -> dict[str, str]:
    """The settings that protect Spark's network, without those that the user has set.

    Args:
        given: the user's settings.
    """
    if SECRET in given:
        warnings.warn(
            f"{SECRET} was given to a builder: PySpark passes it on the command line of the JVM, where every user of "
            "this host can read it. Put it into a spark-defaults.conf with mode 0600 instead (in SPARK_CONF_DIR)",
            stacklevel=4,
        )
    if _is(given, ALLOW_CLEAR_NETWORK):
        return {}
    wanted = {AUTHENTICATE: "true"} if _is(given, TLS) else _SAFE
    return {name: value for name, value in wanted.items() if name not in given}


def check_network(conf: Mapping[str, str]) -> None:
    """Refuse to give keys to a session whose network would expose them.

    Args:
        conf: the settings of the running Spark context.
    """
    if _is(conf, ALLOW_CLEAR_NETWORK):
        return
    master = conf.get("spark.master", "")
    local = master.startswith("local") and not master.startswith("local-cluster")
    wrong = [] if _is(conf, AUTHENTICATE) else [(AUTHENTICATE, "true")]
    if not local and not _is(conf, TLS):
        if not _is(conf, CRYPTO):
            wrong.append((CRYPTO, "true"))
        if _value(conf, CIPHER).upper() != GCM.upper():
            wrong.append((CIPHER, GCM))
        if _is(conf, FALLBACK):
            wrong.append((FALLBACK, "false"))
    if not wrong:
        return
    danger = (
        "other users of this host could ask Spark's ports for rows"
        if local
        else "keys and rows could be read or changed on the network"
    )
    found = ", ".join(f"{name}={_value(conf, name)}" for name, _ in wrong)
    needed = ", ".join(f"{name}={value}" for name, value in wrong)
    tls = "" if local else f" (or {TLS}=true with {AUTHENTICATE}=true)"
    raise ConfigError(
        f"with master {master or 'unknown'}, {danger}: found {found}. Start Spark with {needed}{tls}; "
        f"sealberg.spark.configure and `sealberg spark-conf` set this unless you set something else. "
        f"{ALLOW_CLEAR_NETWORK}=true accepts the risk"
    )


def _value(conf: Mapping[str, Any], name: str) -> str:
    return str(conf.get(name, _DEFAULTS[name])).strip()


def _is(conf: Mapping[str, Any], name: str) -> bool:
    return _value(conf, name).lower() == "true"
