"""A few seconds of every fuzzer in fuzz/, and a bug planted for one of them to find.

`make fuzz` runs them for longer. They need atheris (`pip install --group fuzz`).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent / "fuzz"
TARGETS = sorted(FUZZ.glob("*.py"))
SECONDS = 3

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="atheris is not installed; pip install --group fuzz brings it where it has a wheel",
    ),
]

# A cipher that decrypts and does not authenticate: what a reader must never be built on.
UNAUTHENTICATED = """
import runpy, sys
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from sealberg.format.ags1 import BlockCipher

def init(self, key, aad_prefix=None):
    self._gcm = key

def open_into(self, index, sealed, out):
    counter = modes.CTR(bytes(sealed[:12]) + b"\\0\\0\\0\\2")
    out[:] = Cipher(algorithms.AES(self._gcm), counter).decryptor().update(bytes(sealed[12:-16]))

BlockCipher.__init__, BlockCipher.open_into = init, open_into
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def fuzz(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # In a folder of its own: what makes a target fail is left where it runs.
    options = [f"-max_total_time={SECONDS}", "-print_final_stats=1"]
    return subprocess.run(
        [sys.executable, *command, *options], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_fuzzer_finds_nothing_in_a_few_seconds(target: Path, tmp_path: Path) -> None:
    done = fuzz([str(target)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    executed = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    assert int(executed[0]) > 500


def test_fuzzer_finds_a_reader_that_does_not_authenticate(tmp_path: Path) -> None:
    done = fuzz(["-c", UNAUTHENTICATED, str(FUZZ / "ags1.py")], tmp_path)
    assert done.returncode != 0
    assert (
        "an altered stream opened" in done.stdout + done.stderr or "than was sealed here" in done.stdout + done.stderr
    )
