"""What the documentation shows is true: its Python runs, its commands say what they are shown to say.

The `python` blocks of a page run in order and in one namespace, as one script; its `console` blocks
run in between, in the same folder. A `...` in the output of a command stands for anything.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealberg.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "conformance" / "README.md"))
FENCE = re.compile(r"^(?P<fence>`{3,}|~{3,})(?P<language>[\w+-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
SIMPLE = re.compile(r"sealberg [^|;&$<>`*()]+( 2> \w+\.txt)?")  # one command of ours, nothing that a shell must do
HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.M)


@dataclass(frozen=True)
class Block:
    """One fenced block, and the line of the page on which its body begins."""

    language: str
    body: str
    line: int


def blocks_of(text: str) -> list[Block]:
    return [
        Block(found["language"], found["body"], text.count("\n", 0, found.start("body")) + 1)
        for found in FENCE.finditer(text)
    ]


def run_python(page: Path, block: Block, namespace: dict[str, object]) -> None:
    # The empty lines in front make a traceback point at the line of the page.
    exec(compile("\n" * (block.line - 1) + block.body, str(page), "exec"), namespace)


def run_console(page: Path, block: Block, namespace: dict[str, object]) -> None:
    """Run each `$` line in a shell and compare what it prints with the lines below it."""
    for part in re.split(r"^(?=\$ )", block.body, flags=re.M):
        if not part.strip():
            continue
        command, _, expected = part.partition("\n")
        assert command.startswith("$ "), f"{page.name}:{block.line}: a console block begins with a command"
        said = _run_here(command[2:]) if SIMPLE.fullmatch(command[2:]) else _run_in_shell(command[2:])
        pattern = ".*?".join(re.escape(piece) for piece in expected.strip().split("..."))
        assert re.fullmatch(pattern, said.strip(), re.S), f"{command}\n{said}\nexpected\n{expected}"


def _run_in_shell(command: str) -> str:
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", f"({command}) 2>&1"], capture_output=True, text=True, env=here, check=False)
    return done.stdout


def _run_here(command: str) -> str:
    """The same without a new process, which would import everything once more."""
    line, _, errors_to = command.partition(" 2> ")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("NO_COLOR", "1")
        said = StringIO()
        errors = stack.enter_context(Path(errors_to).open("w")) if errors_to else said
        stack.enter_context(redirect_stdout(said))
        stack.enter_context(redirect_stderr(errors))
        stack.enter_context(suppress(SystemExit))
        main(shlex.split(line)[1:])
    return said.getvalue()


RUNNERS: dict[str, Callable[[Path, Block, dict[str, object]], None]] = {"python": run_python, "console": run_console}

# Pages that run many commands.
SLOW = {
    *("tutorial.md", "operations.md", "migrate.md", "verify.md"),
    *("statistics.md", "kms.md", "inspect.md", "storage.md"),
}
RUNS = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if page.name in SLOW else [])
    for page in PAGES
    if page != ROOT / "README.md"  # test_readme runs it, without the configuration that the other pages have
    and page != ROOT / "conformance" / "README.md"  # test_conformance runs it, in the repository
    and any(block.language in RUNNERS for block in blocks_of(page.read_text(encoding="utf-8")))
]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """An example may set up the audit log, which is one for the whole process."""
    audit = logging.getLogger("sealberg.audit")
    level, propagate, handlers = audit.level, audit.propagate, list(audit.handlers)
    yield
    audit.setLevel(level)
    audit.propagate = propagate
    for handler in set(audit.handlers).difference(handlers):
        audit.removeHandler(handler)
        handler.close()


@pytest.mark.parametrize("page", RUNS)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may leave files behind
    monkeypatch.setenv("SEALBERG_HOME", str(tmp_path / "home"))
    # What a reader has in ~/.pyiceberg.yaml: a catalog "prod", here with a KMS for tests.
    for name, value in {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/prod.db",
        "warehouse": f"file://{tmp_path}/warehouse",
        "encryption.kms-type": "memory",
        "encryption.kms.memory.key.hr": "ab" * 16,
        "encryption.kms.memory.key.hr-2027": "cd" * 16,
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__PROD__{name.upper().replace('-', '_').replace('.', '__')}", value)
    if page.name == "tutorial.md":
        monkeypatch.setenv("SEALBERG_PASSPHRASE", "a good one")  # its `sh` block
    if page.name == "storage.md":
        for name, value in storage_environment(tmp_path).items():
            monkeypatch.setenv(name, value)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language in RUNNERS:
            RUNNERS[block.language](page, block, namespace)


def storage_environment(folder: Path) -> dict[str, str]:
    """Where the stores of the page on storage are: servers on this machine."""
    from kit.servers import store_servers

    s3, gcs, azure = store_servers.s3(), store_servers.gcs(), store_servers.azure()
    return {
        "LAKE_DATABASE": f"sqlite:///{folder}/lake.db",
        "S3_BUCKET": s3.bucket,
        "S3_ENDPOINT": s3.address,
        "S3_ACCESS_KEY": store_servers.ACCESS_KEY,
        "S3_SECRET_KEY": store_servers.SECRET_KEY,
        "GCS_BUCKET": gcs.bucket,
        "GCS_ENDPOINT": gcs.address,
        "GCS_TOKEN": "any",
        "AZURE_CONTAINER": azure.bucket,
        "AZURE_ACCOUNT": store_servers.AZURE_ACCOUNT,
        "AZURE_KEY": store_servers.AZURE_KEY,
        "AZURE_HOST": azure.address.removeprefix("http://"),
    }


def test_a_command_that_says_something_else_is_found_out(tmp_path: Path) -> None:
    run_console(tmp_path, Block("console", "$ printf 'a 12 b'\na ... b\n", 1), {})
    with pytest.raises(AssertionError):
        run_console(tmp_path, Block("console", "$ echo a\nb\n", 1), {})


def anchors_of(page: Path) -> set[str]:
    """The fragments that a page can be entered at, as GitHub makes them."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = (found["title"].lower() for found in HEADING.finditer(prose))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for found in LINK.finditer(prose):
        target, _, fragment = found["target"].partition("#")
        if "://" in target:
            continue
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"{page.name} links to {found['target']}"
        assert place.is_relative_to(ROOT), f"{page.name} links out of the repository: {found['target']}"
        if fragment:
            assert fragment in anchors_of(place), f"{page.name} links to {found['target']}"


def test_pages_for_users_need_no_test_framework() -> None:
    assert [page.name for page in PAGES if "import pytest" in page.read_text(encoding="utf-8")] == []


def test_every_page_of_docs_is_linked_from_an_index() -> None:
    for index in (ROOT / "docs" / "README.md", ROOT / "docs" / "decisions" / "README.md"):
        linked = {found["target"] for found in LINK.finditer(index.read_text(encoding="utf-8"))}
        for page in index.parent.glob("*.md"):
            assert page == index or page.name in linked, f"{index} does not mention {page.name}"


def test_blocks_are_found_with_their_language_and_line() -> None:
    text = "a\n```python\nx = 1\n```\n\n~~~console\n$ ls\n```not a fence\n~~~\n"
    assert blocks_of(text) == [Block("python", "x = 1\n", 3), Block("console", "$ ls\n```not a fence\n", 7)]
