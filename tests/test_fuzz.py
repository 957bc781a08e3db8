"""Every fuzzer in fuzz/ over its corpus and for a few seconds more, and bugs planted for two of them to find.

`make fuzz` runs them for longer. They need atheris, which the group `test` brings where it has a wheel.
"""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent.parent / "fuzz"
TARGETS = sorted(FUZZ.glob("*.py"))
MEMORY_MIB = 2048
RUNS, SECONDS = 1000, 60  # enough to see that a target works; on a slow machine the time ends it

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="atheris is not installed; pip install --group test brings it where it has a wheel",
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

# A parser that takes whatever algorithm the footer of a Parquet file names.
CREDULOUS = """
import runpy, sys
from sealberg.files.parquet import reader as parquet

parquet._check_algorithm = lambda footer, where: None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def fuzz(command: list[str], folder: Path, runs: int = RUNS) -> subprocess.CompletedProcess[str]:
    # In a folder of its own: what makes a target fail is left where it runs.
    # The peak memory of this process counts as the fuzzer's: the kernel hands it on to a program that is started.
    limit = MEMORY_MIB + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    options = [f"-runs={runs}", f"-max_total_time={SECONDS}", f"-rss_limit_mb={limit}", "-print_final_stats=1"]
    return subprocess.run(
        [sys.executable, *command, *options], cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_fuzzer_finds_nothing_in_a_few_seconds(target: Path, tmp_path: Path) -> None:
    done = fuzz([str(target)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    executed = [line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line]
    seeds = list((FUZZ / "corpus" / target.stem).glob("*"))
    assert int(executed[0]) > len(seeds)


def test_fuzzer_finds_a_reader_that_does_not_authenticate(tmp_path: Path) -> None:
    done = fuzz(["-c", UNAUTHENTICATED, str(FUZZ / "ags1.py")], tmp_path, 100_000)
    assert done.returncode != 0
    assert (
        "an altered stream opened" in done.stdout + done.stderr or "than was sealed here" in done.stdout + done.stderr
    )


def test_fuzzer_finds_a_parser_that_reads_a_footer_otherwise_than_java(tmp_path: Path) -> None:
    done = fuzz(["-c", CREDULOUS, str(FUZZ / "parquet_footer.py")], tmp_path)
    assert done.returncode != 0
    assert "Python a " in done.stdout + done.stderr


def test_every_seed_belongs_to_a_fuzzer_and_is_small() -> None:
    for seed in (FUZZ / "corpus").glob("*/*"):
        assert (FUZZ / f"{seed.parent.name}.py").exists()
        assert seed.stat().st_size < 20_000
