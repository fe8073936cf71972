"""Claims on cells: one process has a cell, and a killed process has none."""

import signal
import subprocess
import sys
from pathlib import Path

from flows.compare.cell_claims import claim_cell, is_claimed
from tests.support.paths import ROOT

KEY = "a" * 64
HOLDER = """
import sys, time
from pathlib import Path
from flows.compare.cell_claims import claim_cell

with claim_cell(Path(sys.argv[1]), sys.argv[2]) as is_mine:
    print(is_mine, flush=True)
    time.sleep(600)
"""


def test_a_cell_is_claimed_once(home: Path) -> None:
    assert not is_claimed(home, KEY)
    with claim_cell(home, KEY) as first, claim_cell(home, KEY) as second:
        assert (first, second) == (True, False)
        assert is_claimed(home, KEY)
        assert not is_claimed(home, "b" * 64)
    assert not is_claimed(home, KEY)


def test_a_killed_process_leaves_its_cell_to_others(home: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(home), KEY]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        assert is_claimed(home, KEY)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert not is_claimed(home, KEY)
