"""What the user waits for before `wasp` says anything."""

import subprocess
import sys

from tests.benchmarks.goals import toward
from tests.benchmarks.race import Line, compare
from tests.support.paths import ROOT


def startup(tiny: bool) -> list[Line]:
    """`wasp --help` against an interpreter that does nothing, each a process of its own."""

    def start(*arguments: str) -> None:
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True)

    peers = {"bare interpreter": lambda: start("-c", "import argparse")}
    lines = compare("startup", "wasp --help", lambda: start("-m", "flows.cli.main", "--help"), peers, 1 if tiny else 7)
    return [toward(one, "P15") for one in lines]
