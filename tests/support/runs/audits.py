"""A sabotaged audit, as a process of its own."""

import subprocess
import sys
from collections.abc import Sequence

from tests.support.paths import ROOT
from tests.support.runs.pipeline import Pipeline

SABOTAGED = """
import sys
from dataclasses import replace
import tasks.audit.attacks
from tasks.private.voting.votes import noisy_votes
HOW = sys.argv.pop(1)
def weak(ballot, candidates, noise):
    return noisy_votes(ballot, candidates, replace(noise, sigma=noise.sigma / 4))
def reused(ballot, candidates, noise, kept={}):
    if HOW == "weak":
        return weak(ballot, candidates, noise)
    return kept.setdefault(len(ballot.labels), noisy_votes(ballot, candidates, noise))
tasks.audit.attacks.noisy_votes = reused
from flows.cli.main import main
main()
"""


def sabotaged(pipeline: Pipeline, how: str, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run the command with noise that is too weak ("weak") or drawn once ("reused"); the audit must be red."""
    command = [sys.executable, "-c", SABOTAGED, how, *arguments]
    environment = pipeline.environment | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr[-3000:]
    return done
