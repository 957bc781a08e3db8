"""Spark looks for modules of this name and takes their DefaultSource: so `format("sealberg")` needs no registration."""

from __future__ import annotations

from sealberg.spark.datasource.source import SealbergSource as DefaultSource

__all__ = ["DefaultSource"]
