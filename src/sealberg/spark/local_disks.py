"""Spark's setting that encrypts what it writes to local disks, and the check that a session has it.

Shuffles, spills and cached blocks hold rows; tasks above a size, and those of PySpark, go through files and hold keys.
Spark gives the files no mode of their own, so other users of the host may read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sealberg.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

SPILL: Final = "spark.io.encryption.enabled"
ALLOW_CLEAR_DISKS: Final = "spark.sealberg.allowClearDisks"


def check_local_disks(conf: Mapping[str, str]) -> None:
    """Refuse to give keys to a session that would write rows to local disks in the clear.

    Args:
        conf: the settings of the running Spark context.
    """
    if any(conf.get(name, "").strip().lower() == "true" for name in (SPILL, ALLOW_CLEAR_DISKS)):
        return
    raise ConfigError(
        f"{SPILL} is off: Spark would write rows of shuffles, spills and cached tables, and keys of files, to local "
        f"disks in the clear, where other users may read them. Start Spark with {SPILL}=true; "
        "sealberg.spark.configure and `sealberg spark-conf` set this unless you set something else. "
        f"{ALLOW_CLEAR_DISKS}=true accepts the risk"
    )
