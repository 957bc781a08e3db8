"""Properties of a catalog from three places, and the rule between them.

    spark.sql.catalog.NAME.KEY           Spark's configuration at the start, as for Iceberg's own connector; no secret
    session, configure, install          a dictionary in Python
    .pyiceberg.yaml, PYICEBERG_...       PyIceberg's configuration

Spark's configuration and the dictionary may not disagree about a key: that is an error. What either of them says comes
before PyIceberg's configuration, as `load_catalog` has it. Spark shows its configuration in its UI, its event log and
its REST pages, so a key that holds a secret is refused there by name.

Spark's configuration is that of the application's start (SparkConf). Whoever may send SQL can set any name in a
session: a session that sets how a catalog or its storage is reached is refused, by name, at each of its statements.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sealberg.errors import ConfigError
from sealberg.keys.kms.client import JAVA_CLASSES, KMS_IMPL
from sealberg.properties.catalog_names import CATALOG_PROPERTIES, SESSION_OPTIONS
from sealberg.properties.known import REFUSED, find
from sealberg.properties.spark_names import APPLICATION_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CATALOG_CLASS: Final = "sealberg.catalog.EncryptedCatalog"
SESSION_CATALOG: Final = "spark_catalog"  # Spark's name for the catalog of two-part names
SESSION_CATALOG_CLASS: Final = "sealberg.catalog.SessionCatalog"
PREFIX: Final = "spark.sql.catalog."
OWN: Final = "spark.sealberg."
_SECRET: Final = re.compile(
    r"pass(word|phrase|wd)|secret|token|credential|access-key|account-key|private-key|connection-string|\bsas\b|"
    r"^header\.|^auth\b|^encryption\.kms\.memory\.key\.|session-kwargs|(^|\.)pin$"
)
_NAMES_A_PLACE: Final = re.compile(r"(-file|-env|-path|-uri|-endpoint|-expires-at|-enabled|-ms|-provider)$")


def class_of(catalog: str) -> str:
    """What spark.sql.catalog.NAME is for a catalog of sealberg."""
    return SESSION_CATALOG_CLASS if catalog == SESSION_CATALOG else CATALOG_CLASS


def check_settings(names: Iterable[str]) -> None:
    """Refuse a setting of sealberg's own that nobody would obey.

    Args:
        names: of settings in Spark's configuration, all of them or those that begin with spark.sealberg.
    """
    for name in names:
        if name.startswith(OWN) and find(APPLICATION_SETTINGS, name) is None:
            known = ", ".join(setting.name for setting in APPLICATION_SETTINGS)
            raise ConfigError(f"unknown setting {name} in Spark's configuration; known are {known}")


def options_of(catalog: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog in Spark's configuration, checked.

    Beside a KMS client of the user's own, unknown properties are taken for the client's.
    """
    prefix = f"{PREFIX}{catalog}."
    found = {name[len(prefix) :]: value for name, value in conf.items() if name.startswith(prefix)}
    own_client = found.get(KMS_IMPL, "") not in ("", *JAVA_CLASSES)
    for key, value in found.items():
        _check(prefix, key, value, own_client=own_client)
    return found


def _check(prefix: str, key: str, value: str, *, own_client: bool) -> None:
    if holds_secret(key) or _has_password(value):
        raise ConfigError(
            f"{prefix}{key} holds a secret, and Spark shows its configuration in its UI and its event log: put it into "
            "PyIceberg's configuration file (.pyiceberg.yaml) or its environment (PYICEBERG_CATALOG__...), or give it "
            "to sealberg.spark.install(spark, {catalog: {...}})"
        )
    known = find(CATALOG_PROPERTIES, key)
    if known is None and own_client:
        return
    if known is None:
        names = ", ".join(option.name + ("*" if option.name.endswith(".") else "") for option in CATALOG_PROPERTIES)
        raise ConfigError(f"unknown option {prefix}{key}; known are {names}")
    if known.fate == REFUSED:
        raise ConfigError(f"{prefix}{key} is not supported: {known.reason}")


def holds_secret(key: str) -> bool:
    return bool(_SECRET.search(key.lower())) and not _NAMES_A_PLACE.search(key.lower())


def _has_password(value: str) -> bool:
    """postgresql://user:password@host"""
    try:
        return urlsplit(value).password is not None
    except ValueError:
        return False


def check_session(catalog: str, changed: Iterable[str], *, own: bool) -> None:
    """Refuse a session that says how a catalog, its KMS or its storage is reached.

    Args:
        catalog: the name of the catalog that the session uses.
        changed: the whole names of settings that the session has otherwise than the application had at its start.
        own: the sessions are those of one program, which may set Hadoop's settings for itself.
    """
    prefix = f"{PREFIX}{catalog}."
    options = sorted(name for name in changed if name.startswith(prefix))
    wrong = [name for name in options if find(SESSION_OPTIONS, name[len(prefix) :]) is None]
    storage = [] if own else sorted(name for name in changed if not name.startswith(PREFIX))
    if not wrong and not storage:
        return
    harmless = ", ".join(option.name for option in SESSION_OPTIONS)
    start = [*wrong, *(f"spark.hadoop.{name}" for name in storage)]
    raise ConfigError(
        f"this session has set {', '.join([*wrong, *storage])}: how a catalog and its storage are reached is said when "
        f"the application starts, never in a session. RESET the name; whoever starts Spark sets {', '.join(start)} "
        "by --conf or spark-defaults.conf, or the property in PyIceberg's configuration; a program gives it to "
        f"sealberg.spark.install(spark, {{catalog: {{...}}}}). A session may set {harmless} of a catalog"
    )


def combined(catalog: str, options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What Spark's configuration and the program say of a catalog."""
    if differ := sorted(key for key in options.keys() & given.keys() if options[key] != given[key]):
        raise ConfigError(
            f"catalog {catalog}: {', '.join(differ)} has one value in {PREFIX}{catalog}.* and another in the "
            "properties that the program gave: leave one of the two out"
        )
    return {**options, **given}
