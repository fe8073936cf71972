"""A sabotaged audit as a program, and the artifacts that an audit leaves in Prefect."""

from __future__ import annotations

from typing import Any

from tests.support.runs.served_flow import ask

SABOTAGED = """
import sys
from dataclasses import replace
import tasks.audit.attacks
from tasks.private.voting.votes import noisy_votes
HOW = sys.argv.pop(1)
def weak(ballot, candidates, noise):
    return noisy_votes(ballot, candidates, replace(noise, sigma_int=noise.sigma_int / 4))
def reused(ballot, candidates, noise, kept={}):
    if HOW == "weak":
        return weak(ballot, candidates, noise)
    return kept.setdefault(len(ballot.labels), noisy_votes(ballot, candidates, noise))
tasks.audit.attacks.noisy_votes = reused
from flows.cli.main import main
main()
"""


def artifacts(api: str, prefect_run: str) -> dict[str, Any]:
    found = ask(api, "/artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [prefect_run]}}})
    return {one["key"]: one["data"] for one in found}
