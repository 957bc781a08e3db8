"""The statements of vectors/statements, which Spark runs on our tables and on Iceberg Java's.

    chapters()       name -> Chapter, from the files *.sql
    differences()    chapter -> statement -> how the two outcomes differ, and why, from differences.json

A chapter is a file of statements that each end with `;` at the end of a line. The first line says what the chapter is
about, lines that start with `--` are comments. A statement is identified by its text; `(2)` is added to a text that
occurs in its chapter for the second time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FOLDER: Final = Path(__file__).parents[3] / "vectors" / "statements"
DIFFERENCES: Final = FOLDER / "differences.json"


@dataclass(frozen=True)
class Chapter:
    """Statements that run one after the other, in their own namespace."""

    name: str
    title: str
    statements: Mapping[str, str]  # by the text that each is known by


@dataclass(frozen=True)
class Difference:
    """The outcomes of a statement on our tables and on Java's, and the name of the reason."""

    ours: str
    java: str
    reason: str


def chapters(folder: Path = FOLDER) -> dict[str, Chapter]:
    return {path.stem: chapter(path) for path in sorted(folder.glob("*.sql"))}


def chapter(path: Path) -> Chapter:
    title, *lines = path.read_text().splitlines()
    texts = "\n".join(line for line in lines if not line.startswith("--")).split(";\n")
    texts = [" ".join(text.rstrip(";").split()) for text in texts]
    return Chapter(path.stem, title.removeprefix("--").strip(), _known(text for text in texts if text))


def _known(texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        found[text if seen[text] == 1 else f"{text} ({seen[text]})"] = text
    return found


def differences() -> dict[str, dict[str, Difference]]:
    kept = json.loads(DIFFERENCES.read_text())
    return {name: {text: Difference(**one) for text, one in by.items()} for name, by in kept.items()}


def write_differences(found: Mapping[str, Mapping[str, Difference]]) -> None:
    plain = {name: {text: vars(one) for text, one in by.items()} for name, by in found.items() if by}
    DIFFERENCES.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
