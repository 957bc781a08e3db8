"""Encrypted tables in Spark, from SQL to the bytes in storage; a few million rows, on this machine.

python examples/spark_demo.py [ROWS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sealberg.spark

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 3_000_000


def main(rows: int = ROWS) -> None:
    with tempfile.TemporaryDirectory(prefix="sealberg-spark-") as name:
        home = Path(name)
        os.environ |= {"SEALBERG_HOME": name, "SEALBERG_PASSPHRASE": "a passphrase for a demonstration"}
        with step("a keystore with the master key 'hr', and a Spark session"):
            command("keystore", "create")
            command("keystore", "add", "hr")
            spark = sealberg.spark.session(
                "demo",
                {
                    "type": "sql",
                    "uri": f"sqlite:///{home}/catalog.db",
                    "warehouse": f"file://{home}/warehouse",
                    "encryption.kms-type": "keystore",
                },
                **{"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"},
            )
            spark.sparkContext.setLogLevel("OFF")  # what fails at the end is told in one line

        with step(f"an encrypted table, {rows:,} rows"):
            spark.sql("CREATE NAMESPACE demo.hr")
            spark.sql(
                f"""CREATE TABLE demo.hr.people
                TBLPROPERTIES ('encryption.key-id' = 'hr', 'write.delete.mode' = 'merge-on-read') AS
                SELECT id, concat('person ', id) AS name, 1000 + id % 9000 AS salary FROM range({rows})"""
            )

        with step("a query"):
            found = spark.sql("SELECT count(*), sum(salary) FROM demo.hr.people WHERE salary > 9990").first()
            assert found is not None
            say(f"{found[0]:,} rows, {found[1]:,} in all")

        with step("a delete and a merge"):
            spark.sql("DELETE FROM demo.hr.people WHERE id % 1000 = 7")
            spark.sql(
                """MERGE INTO demo.hr.people t USING (SELECT 5L AS id UNION ALL SELECT -1L) s ON t.id = s.id
                WHEN MATCHED THEN UPDATE SET salary = 0
                WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"""
            )
            say(f"{spark.table('demo.hr.people').count():,} rows now")

        with step("what lies in storage"):
            files = [
                path for path in (home / "warehouse").rglob("*") if path.suffix in (".parquet", ".avro", ".puffin")
            ]
            magics: dict[str, int] = {}
            for path in files:
                magic = path.read_bytes()[:4].decode()
                magics[magic] = magics.get(magic, 0) + 1
            say(", ".join(f"{count} files begin with {magic}" for magic, count in sorted(magics.items())))
            assert set(magics) == {"PARE", "AGS1"}

        with step("a byte of a file is changed"):
            live = spark.sql("SELECT _file FROM demo.hr.people WHERE id = 100").first()
            assert live is not None
            victim = Path(live[0].removeprefix("file://"))
            data = bytearray(victim.read_bytes())
            data[len(data) // 2] ^= 1
            victim.write_bytes(data)
            try:
                spark.sql("SELECT max(name), sum(salary), sum(id) FROM demo.hr.people").collect()
            except Exception as error:  # noqa: BLE001 (Spark wraps what a task raised)
                line = next(line for line in str(error).splitlines() if "FileIntegrityException" in line)
                say(line.partition("FileIntegrityException: ")[2].rpartition("/data/")[2][:200])
            else:
                raise AssertionError("the query did not notice")
        spark.stop()


@contextmanager
def step(words: str) -> Iterator[None]:
    print(f"\n{words}", flush=True)
    began = time.monotonic()
    yield
    say(f"{time.monotonic() - began:.1f} s")


def say(words: str) -> None:
    print(f"    {words}", flush=True)


def command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sealberg.cli.main", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
