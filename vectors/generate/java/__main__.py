"""Make the tables of one release of Iceberg Java in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from vectors.generate.java.release import running
from vectors.generate.java.rows import write_expected
from vectors.generate.java.tables_1_11 import RECIPES as OLD
from vectors.generate.java.tables_1_12 import RECIPES

RELEASES = {"1.12.0": RECIPES, "1.11.0": OLD}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vectors.generate.java", description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder for wh/ and expected/")
    parser.add_argument("--release", choices=RELEASES, default="1.12.0", help="of Iceberg Java")
    parser.add_argument("--only", nargs="*", help="names of tables")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [recipe for recipe in RELEASES[given.release] if not given.only or recipe.name in given.only]
    with running(given.release, folder) as java:
        for recipe in wanted:
            print(recipe.name, flush=True)
            for step in recipe.steps:
                if isinstance(step, str):
                    java.sql(step.format(t=f"h.db.{recipe.name}", n=f"db.{recipe.name}"))
                else:
                    step.act(java, recipe.name)
            write_expected(java, recipe, given.release, folder)
    for checksum in folder.glob("wh/**/.*.crc"):  # Hadoop's own, about the stored bytes
        checksum.unlink()


main()
