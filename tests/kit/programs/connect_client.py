"""A client of Spark Connect: SQL from stdin, a statement a line; answers as tests/java/SqlJob.java writes them.

python -m kit.programs.connect_client sc://127.0.0.1:15002     or local[2], for a server in the client's own session
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for line in sys.stdin:
        try:
            for row in spark.sql(line.strip()).collect():
                print(*row, sep="\t")
        except Exception as error:
            print("!" + " ".join(str(error).split()))
        print(".", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
