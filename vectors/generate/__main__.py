"""Rewrite every generated vector, and remove those that no generator makes any more."""

from __future__ import annotations

from pathlib import Path

from vectors.generate import FOLDERS, KEPT, every_vector

HOME = Path(__file__).resolve().parent.parent


def main() -> None:
    vectors = every_vector()
    for path in HOME.glob("*/*.txt"):
        name = f"{path.parent.name}/{path.stem}"
        if path.parent.name in FOLDERS and name not in vectors and name not in KEPT:
            path.unlink()
    for name, vector in vectors.items():
        path = HOME / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(vector.to_text(), encoding="utf-8")


main()
