"""The cases of conflict_cases.py, executed by Iceberg Java on a Hive Metastore.

derive(folder, pairs)     what Java does with these pairs
python -m kit.tables.conflict_java     all of them, into vectors/conflicts/verdicts.json (from the folder `tests`)

One Java program without Spark calls Iceberg's API, as Spark's writers do; hundreds of tables take minutes.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest

from kit.programs.commands import compile_java, jdk
from kit.programs.iceberg_java import JARS
from kit.programs.maven import bring
from kit.servers.metastore import OPENED, metastore
from kit.tables.conflict_cases import PLANNED, SEED, VERDICTS, pairs, write_grouped

SOURCES: Final = [
    Path(__file__).parents[2] / "java" / name for name in ("ConflictPairs.java", "ConflictOperations.java")
]
PATIENCE_S: Final = 840
# Why a commit is refused, by a part of the message. The first that fits is taken.
KINDS: Final = {
    "Found conflicting files that can contain records": "new rows",
    "Found new conflicting delete files": "new deletes",
    "found new delete for replaced data file": "new deletes",
    "found new position delete for replaced data file": "new deletes",
    "Found concurrently added DV": "new deletes",
    "Missing required files to delete": "missing files",
    "Cannot commit, missing data files": "missing files",
    "Found conflicting deleted files": "missing files",
    "Found concurrently added deletes": "new deletes",
    "Cannot determine history": "unknown history",
    "has removed the branch": "no such branch",
    "is not an ancestor of": "unknown history",
    "CommitFailedException": "stale metadata",
    "Branch does not exist": "no such branch",
    "unknown snapshot": "no such snapshot",
}


def derive(folder: Path, wanted: list[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """What Java does with these pairs of (B, C), for every A."""
    pyspark = pytest.importorskip("pyspark", reason="PySpark brings the metastore and its client")
    iceberg, jars = bring(JARS[0])[0], Path(pyspark.__file__).parent / "jars"
    classpath = f"{iceberg}:{jars}/*"
    classes = compile_java(*SOURCES, classpath=classpath)
    cases, found = folder / "cases.json", folder / "verdicts.json"
    cases.write_text(json.dumps({"seed": SEED, "planned": PLANNED, "pairs": wanted}))
    (folder / "files").mkdir()
    opened = [word for package in OPENED for word in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
    frugal = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    with metastore(folder) as port:
        program = [
            "org.apache.iceberg.ConflictPairs",
            f"thrift://127.0.0.1:{port}",
            str(folder),
            str(cases),
            str(found),
        ]
        command = [str(jdk().java), *frugal, *opened, "-cp", f"{classes}:{classpath}", *program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        pytest.fail(f"ConflictPairs ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
    raw: dict[str, dict[str, str]] = json.loads(found.read_text())
    return {pair: {planned: verdict(text) for planned, text in by.items()} for pair, by in raw.items()}


def verdict(text: str) -> str:
    """A refusal without the names of files and snapshots, so that two runs can be compared."""
    kinds = (kind for part, kind in KINDS.items() if part in text)
    return text if text.startswith("allowed") else f"refused: {next(kinds, text.removeprefix('refused: '))}"


def _main() -> None:
    with tempfile.TemporaryDirectory(prefix="sealberg-pairs-") as folder:
        found = derive(Path(folder), pairs())
    write_grouped(VERDICTS, found)


if __name__ == "__main__":
    _main()
