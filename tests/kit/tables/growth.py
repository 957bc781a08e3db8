"""The memory that a function needs: a child process runs it and reports the growth of its memory."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent


def growth(program: str, *arguments: str) -> tuple[int, str]:
    """The growth of a child process in MiB while it ran `act()` of a program, and the error of `act()`."""
    frame = """
        import resource, sys
        {body}
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            act()
            said = "nothing"
        except BaseException as error:
            said = f"{{type(error).__name__}}: {{error}}"
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
        print(said[:500])
    """
    body = dedent(program).strip().replace("\n", "\n        ")
    text = dedent(frame.replace("{{", "{").replace("}}", "}").replace("{body}", body))
    done = subprocess.run(
        [sys.executable, "-c", text, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    grown, said = done.stdout.split("\n", 1)
    return int(grown), said
