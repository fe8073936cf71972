"""A sabotaged audit as a program."""

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
