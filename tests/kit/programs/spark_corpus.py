"""The tables of the corpus in a session of Spark, at the locations where they were written.

home = spark_corpus.home      a fixture: registers a table of the corpus and gives its name in Spark

Python finds these locations by HomeFileIO of kit.tables.corpus, Spark's tasks by tests/spark/java/CorpusHome.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kit.programs.spark import properties_of
from kit.tables import corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kit.programs.spark import SparkKit


@pytest.fixture(scope="module")
def home(kit: SparkKit) -> Iterator[Callable[[dict[str, Any]], str]]:
    import sealberg.spark
    from sealberg.spark.sessions import CATALOG_CLASS

    settings = {
        "spark.sql.catalog.corpus": CATALOG_CLASS,
        "fs.file.impl": "CorpusHome",
        "fs.file.impl.disable.cache": "true",  # Hadoop's cache has another file system for local files already
        "corpus.places": ",".join(f"{home}={place}" for home, place in corpus.places().items()),
    }
    for name, value in settings.items():
        kit.spark.conf.set(name, value)
    properties = {**properties_of(kit.folder), **corpus.HOME}
    sealberg.spark.install(kit.spark, {"corpus": properties})
    with sealberg.load_catalog("corpus", **properties) as catalog:
        catalog.create_namespace_if_not_exists("hr")

        def registered(entry: dict[str, Any]) -> str:
            table = kit.fresh("g").removeprefix("prod.")
            catalog.register_table(table, corpus.at_home(entry))
            return f"corpus.{table}"

        yield registered
    for name in settings:
        kit.spark.conf.unset(name)
