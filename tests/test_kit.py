"""What other tests rely on: ports that two processes cannot both get."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kit.servers.ports import free_port

HERE = Path(__file__).parent


def test_a_port_that_one_process_got_is_given_to_no_other() -> None:
    """Although nothing listens there yet: its server may still be starting."""
    port = free_port()
    code = f"from kit.servers.ports import _reserve; print(_reserve({port}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
