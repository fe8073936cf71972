"""Waiting time of the user before the first output of `wasp`."""

import subprocess
import sys

from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, in_turns, line
from tests.support.paths import ROOT


def startup(tiny: bool) -> list[Line]:
    """`wasp --help` against an interpreter that does nothing, each a process of its own."""

    def start(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)

    arms = {
        "": lambda: start("-m", "flows.cli.main", "--help"),
        "bare": lambda: start("-c", "import argparse"),
    }
    taken = in_turns(arms, 1 if tiny else 7)
    return [
        toward(line("startup", "wasp --help", "bare interpreter", taken[""], taken["bare"]), "P15")
    ]
