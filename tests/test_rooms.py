"""The folder list is the architecture: each package names its modules, and the project the packages that it imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "sealberg"
OWN = {"sealberg", "pyspark_sealberg"}
PACKAGES = sorted(SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("init", [pytest.param(init, id=str(init.parent.relative_to(SOURCE))) for init in PACKAGES])
def test_a_package_names_its_modules(init: Path) -> None:
    docstring = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
    modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
    packages = {path.parent.name for path in init.parent.glob("*/__init__.py")}
    assert modules | packages <= set(re.findall(r"\w+", docstring))


def test_the_contract_about_pyspark_covers_everything_outside_spark() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    covered = next(each for each in contracts if each["name"] == "pyspark only under spark/")["source_modules"]
    there = {path.parent.name if path.name == "__init__.py" else path.stem for path in SOURCE.glob("*/__init__.py")}
    there |= {path.stem for path in SOURCE.glob("*.py")} - {"__init__"}
    assert set(covered) == {f"sealberg.{name}" for name in there - {"spark"}}


def test_private_names_of_other_packages_are_in_the_files_made_for_them() -> None:
    allowed = {
        "pyiceberg_private.py",
        "catalogs/rest/pyiceberg_client.py",
        "catalogs/guard.py",
        "catalogs/rest/session.py",  # of requests
        "spark/sessions.py",  # of pyspark
    }
    own = {"metadata/table_metadata.py", "metadata/decode_cache.py", "keys/manager.py"}  # our own, of the same package
    using = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if "SLF001" in path.read_text()}
    assert using <= allowed | own


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [
        *project["dependencies"],
        *(each for extra in project["optional-dependencies"].values() for each in extra),
    ]
    declared = {_normalized(re.match(r"[\w.-]+", each)[0]) for each in listed}  # type: ignore[index]
    distributions = packages_distributions()
    undeclared = {}
    for path in SOURCE.rglob("*.py"):
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))) - sys.stdlib_module_names - OWN:
            known = {_normalized(each) for each in distributions.get(name, [name])}
            if not known & declared:
                undeclared[name] = str(path.relative_to(SOURCE))
    assert undeclared == {}


def _imported(tree: ast.AST) -> set[str]:
    plain = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    other = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in plain | other}


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
